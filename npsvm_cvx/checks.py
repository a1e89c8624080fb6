"""The checks, one function each: an instance in, rows of evidence out.  Draws no conclusion beyond its own row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import cvxpy as cp
import numpy as np
from sklearn.base import clone

from .claims import invariances, reductions
from .diagnosis import explain_domain, explain_objective, explain_recovery, explained
from .errors import CurvatureError
from .evidence import PLANES, VALUES, Row, Status, compare_planes, fell_short, judged, relative, skipped
from .fenchel import conjugate
from .forms import Steps
from .instance import ACCURATE, Instance
from .linalg import Array
from .modeling import Program, moved_to
from .reading import NotCompilable
from .solvers import ProgramSolution, solve_program

# --- what is declared ----------------------------------------------------------------------------------------


def curvature(instance: Instance) -> Iterator[Row]:
    """The primal is convex and the dual concave by CVXPY's rules, here and at other hyperparameter values."""
    tried = 0
    for factors in ((1.0, 1.0), (2**-8, 2**8), (2**8, 2**-8)):
        changed = clone(instance.formulation)
        here = {
            name: moved_to(name, value, float(value) * factors[i % 2])
            for i, (name, value) in enumerate(sorted(changed.get_params(deep=False).items()))
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        changed.set_params(**here)
        try:
            changed.check_hyperparameters()
        except ValueError:
            continue  # outside its interval: not a value anybody can ask for
        tried += 1
        try:
            primal = changed.program("primal", instance.S, instance.R)
            changed.program("dual", instance.S, instance.R, beside=primal)
        except CurvatureError as error:
            yield Row("curvature", 1.0, 0.0, "fail", str(error))
            return
    yield Row("curvature", 0.0, 0.0, "pass", f"convex primal, concave dual, at {tried} settings of the hyperparameters")


# --- the derivation ------------------------------------------------------------------------------------------


def dual_function(instance: Instance) -> Iterator[Row]:
    """At random multipliers the declared dual objective is the infimum of the Lagrangian; outside, it is -inf."""
    dual = instance.dual
    if dual is None:
        yield skipped("dual function", "no dual is declared: the conic dual stands in")
        return
    if not dual.multipliers:
        yield skipped("dual function", "the dual does not say what the multipliers are")
        return
    lagrangian, domain = instance.lagrangian, instance.domain
    centre, points = instance.points
    if not points:
        yield Row("dual domain", float("inf"), 0.0, "fail", "dual: no multipliers satisfy the declared constraints")
        return
    worst, sentence, exact, evaluated = 0.0, "", True, 0
    for theta in points:
        multipliers = domain.multipliers(theta)
        name, negative = lagrangian.most_negative(multipliers)
        size = max(float(np.abs(m).max(initial=0.0)) for m in multipliers.values())
        if negative < -1e-9 * max(size, 1e-12):
            yield Row(
                "dual domain",
                -negative,
                0.0,
                "fail",
                explained(instance.formulation, explain_domain)
                or f"dual domain: the declared constraints let the multiplier of [{name}] be {negative:.4g}, and a "
                "multiplier of an inequality is nonnegative: a bound is missing, too wide, or on the wrong side",
            )
            return
        infimum = lagrangian.infimum(multipliers)
        exact &= infimum.exact
        declared = domain.objective(theta)
        if infimum.value == -np.inf:
            yield Row(
                "dual domain",
                float("inf"),
                0.0,
                "fail",
                explained(instance.formulation, explain_domain)
                or f"dual domain: at declared multipliers the Lagrangian is unbounded below{_along(infimum.along)}: "
                "the domain is too wide, a multiplier is not the one of its constraint, or a constraint of the primal "
                "has the wrong sign or side",
            )
            return
        if np.isnan(infimum.value):
            continue
        error = abs(declared - infimum.value) / max(abs(declared), abs(infimum.value), infimum.scale, 1e-300)
        evaluated += 1
        if not error < worst:  # a declared value that is no number is the worst there is
            worst = error
            sentence = f"declared {declared:.8g}, infimum of the Lagrangian {infimum.value:.8g}"
    if not evaluated:
        yield Row("dual function", float("nan"), VALUES, "solver", "no solver could minimise the Lagrangian")
        return
    tolerance = 1e-8 if exact else 1e-7
    found = explained(instance.formulation, explain_objective) if not worst <= tolerance else None
    yield judged(
        "dual function",
        worst,
        tolerance,
        f"declared objective = infimum of the Lagrangian at {len(points)} random multipliers",
        found or f"dual objective: {sentence}",
    )
    yield from _outside(instance, centre)


def _outside(instance: Instance, centre: Array) -> Iterator[Row]:
    lagrangian, domain = instance.lagrangian, instance.domain
    broken, unknown = [], []
    for point in domain.outside(centre, np.random.default_rng(instance.seed + 1)):
        multipliers = domain.multipliers(point.theta)
        if lagrangian.most_negative(multipliers)[1] < 0:
            broken.append(point.constraint)
            continue
        infimum = lagrangian.infimum(multipliers)
        if infimum.value == -np.inf:
            broken.append(point.constraint)
        elif np.isnan(infimum.value) or lagrangian.reach() > _FINITE:  # it may well be minus infinity
            unknown.append(point.constraint)
        else:
            yield Row(
                "dual domain",
                1.0,
                0.0,
                "fail",
                explained(instance.formulation, explain_domain)
                or f"dual domain: beyond the declared [{point.constraint}] the Lagrangian still has a finite infimum "
                f"({infimum.value:.6g}) and no multiplier is negative: the domain is too narrow",
            )
            return
    names = ", ".join(f"[{n}]" for n in broken)
    if unknown:
        yield Row("dual domain", float("nan"), 0.0, "solver", "no solver could tell whether the Lagrangian is bounded")
    elif broken:
        yield Row("dual domain", 0.0, 0.0, "pass", f"beyond {names} the infimum is -inf or a multiplier negative")
    else:
        yield Row("dual domain", 0.0, 0.0, "pass", "no inequality bounds the multipliers, and inside all is finite")


_FINITE = 1e6  # an entry of a minimiser larger than this is on its way to infinity


def _along(variable: str) -> str:
    return f" along {variable}, whose coefficients do not cancel" if variable else ""


def weak_duality(instance: Instance) -> Iterator[Row]:
    """No declared dual value exceeds the primal's optimum."""
    best = instance.best_primal()
    if instance.dual is None:
        yield skipped("weak duality", "no dual is declared")
    elif best is None:
        yield Row("weak duality", float("nan"), VALUES, "solver", "no solver solved the primal accurately")
    else:
        points = [instance.domain.objective(theta) for theta in instance.points[1]]
        solved = instance.best_dual()
        values = [*points, solved.value] if solved is not None else points
        excess = max([0.0, *((value - best.value) / max(abs(best.value), 1e-300) for value in values)])
        yield judged(
            "weak duality",
            excess,
            VALUES + best.error,
            f"no dual value exceeds the primal's optimum: {len(points)} at random multipliers, and the largest",
            f"weak duality: a declared dual value exceeds the primal's optimum {best.value:.8g} by {excess:.2g} of it",
        )


def strong_duality(instance: Instance) -> Iterator[Row]:
    """The primal's value by one solver is the dual's by another."""
    if instance.dual is None:
        yield skipped("strong duality", "no dual is declared")
        return
    for name, primal in instance.primal_solutions.items():
        dual = instance.best_dual(other_than=name)
        if primal.error > ACCURATE:
            yield fell_short("strong duality", primal, "primal")
            continue
        if dual is None:
            yield _no_dual(instance, name)
            continue
        error = relative(primal.value, dual.value)
        yield judged(
            "strong duality",
            error,
            VALUES + primal.error + dual.error,
            f"primal ({name}) = dual ({dual.solver}) = {primal.value:.9g}",
            f"primal optimum {primal.value:.9g} ({name}) is not the dual optimum {dual.value:.9g} ({dual.solver})",
            solver=name,
        )


def _no_dual(instance: Instance, name: str) -> Row:
    claims = {s.status for s in instance.dual_solutions.values()}
    # believed where nothing speaks against it: SOR, on the dual's own numbers, may have proved an optimum
    if claims & {"unbounded", "infeasible"} and not instance.sor_gap <= ACCURATE:
        words = ", ".join(f"{s.solver}: {s.status}" for s in instance.dual_solutions.values())
        return Row(
            "strong duality",
            float("inf"),
            VALUES,
            "fail",
            f"the primal has an optimum, the dual none ({words})",
            solver=name,
        )
    return Row("strong duality", float("nan"), VALUES, "solver", "no solver solved the dual accurately", solver=name)


def conic_dual(instance: Instance) -> Iterator[Row]:
    """The dual that CVXPY's standard form of the primal implies has the declared dual's value."""
    implied = instance.conic_dual_value
    against = instance.best_dual() if instance.dual is not None else instance.best_primal()
    what = "declared dual" if instance.dual is not None else "primal"
    if not np.isfinite(implied) or against is None:
        yield Row(
            "conic dual", float("nan"), VALUES, "solver", f"the conic dual or the {what} was not solved accurately"
        )
        return
    error = relative(implied, against.value)
    yield judged(
        "conic dual",
        error,
        VALUES + ACCURATE,
        f"conic dual = {what} = {implied:.9g}",
        f"the conic dual of the primal is {implied:.9g}, the {what} {against.value:.9g}",
    )


def kkt(instance: Instance) -> Iterator[Row]:
    """Residual, cone, stationarity, complementarity and gap of each solver's point, on the standard form.

    And of the formulation's own pair: the dual's declared multipliers beside the primal's slacks.
    """
    claims = {s.status for s in instance.primal_solutions.values()}
    if instance.best_primal() is None and claims & {"infeasible", "unbounded"}:
        words = ", ".join(f"{s.solver}: {s.status}" for s in instance.primal_solutions.values())
        yield Row("primal", float("inf"), 0.0, "fail", f"primal: it has no optimum ({words}); {_suspects(instance)}")
        return
    for what, solutions in (("primal", instance.primal_solutions), ("dual", instance.dual_solutions)):
        for solution in solutions.values():
            if solution.error > ACCURATE:
                yield fell_short("KKT", solution, what)
                continue
            assert solution.residuals is not None
            r = solution.residuals
            said = "" if solution.status == "solved" else f" although it says {solution.status!r}"
            yield Row(
                "KKT",
                solution.error,
                ACCURATE,
                "pass",
                f"{what}{said}: primal {r.primal:.0e}, cone {r.cone:.0e}, stationarity {r.stationarity:.0e}, "
                f"complementarity {r.complementarity:.0e}, gap {r.gap:.0e}",
                solver=solution.solver,
                seconds=solution.seconds,
                claim=solution.status,
            )
    primal, dual = instance.best_primal(), instance.best_dual()
    if primal is not None and dual is not None and dual.multipliers:
        yield _declared_pair(instance, primal, dual)


def _suspects(instance: Instance) -> str:
    """Say which constraints a primal without an optimum has one without."""
    found = []
    for name in instance.primal.constraints:
        rest = {k: c for k, c in instance.primal.constraints.items() if k != name}
        without = Program(instance.primal.objective, rest, instance.primal.plane)
        if solve_program(without, instance.solvers[0], instance.options).error <= ACCURATE:
            found.append(f"[{name}]")
    return f"without {' or '.join(found)} it has one" if found else "look at its objective and its constraints"


def _declared_pair(instance: Instance, primal: ProgramSolution, dual: ProgramSolution) -> Row:
    assert instance.dual is not None
    worst, sentence = 0.0, ""
    # the size of all: where every a is at its bound C2, the multipliers C2 - a are zero but for rounding
    size = max([1e-300, *(float(np.abs(m).max(initial=0.0)) for m in dual.multipliers.values())])
    for name in instance.dual.multipliers:
        multiplier, side = dual.multipliers[name], primal.sides[name]
        product = abs(float(np.sum(multiplier * side))) / max(abs(primal.value), 1e-300)
        if product > worst:
            worst, sentence = product, f"multiplier of [{name}] times its slack is {product:.2g} of the optimum"
        if isinstance(instance.primal.constraints[name], cp.constraints.nonpos.Inequality):
            negative = float(-np.min(multiplier, initial=0.0)) / size
            if negative > worst:
                worst, sentence = negative, f"the declared multiplier of [{name}] is negative"
    # products of a multiplier's and a slack's error: the square root of the gaps, at worst
    tolerance = PLANES + 10 * float(np.sqrt(primal.error + dual.error))
    return judged(
        "KKT",
        worst,
        tolerance,
        f"declared multipliers ({dual.solver}) complement the primal's slacks ({primal.solver})",
        f"declared multipliers: {sentence}",
        solver="declared",
    )


def plane_from_dual(instance: Instance) -> Iterator[Row]:
    """The declared recovery gives the plane that minimises the Lagrangian, and the primal's at the optimum."""
    dual = instance.dual
    if dual is None:
        yield skipped("plane from dual", "no dual is declared")
        return
    if dual.multipliers and not isinstance(dual.plane, str) and instance.lagrangian.minimum.linear:
        yield _recovery(instance)
    reference, judge = instance.best_primal(), instance.best_dual()
    rows = []
    for name, solution in instance.dual_solutions.items():
        if reference is None or reference.plane is None:
            yield Row("plane from dual", float("nan"), PLANES, "solver", "no solver solved the primal accurately")
            return
        if solution.error > ACCURATE or solution.plane is None:
            rows.append(fell_short("plane from dual", solution, "dual"))
            continue
        what = f"the plane declared by the dual ({name})"
        rows.append(compare_planes(instance, "plane from dual", solution.plane, solution.error, reference, what, name))
    # the recovery is a formula: if it is right at the most accurate dual solution, it is not the formula that is wrong
    right = any(judge is not None and row.solver == judge.solver and row.status == "pass" for row in rows)
    yield from (replace(row, status="solver") if right and row.status == "fail" else row for row in rows)


def _recovery(instance: Instance) -> Row:
    domain, lagrangian = instance.domain, instance.lagrangian
    worst, ratio = 0.0, 1.0
    for theta in instance.points[1]:
        if not lagrangian.infimum(domain.multipliers(theta)).attained:
            continue
        minimiser = instance.primal.plane_value()
        domain.put(theta)
        declared = domain.dual.plane_value()
        error = instance.distance(declared, minimiser)
        if error > worst:
            one, two = instance.values(declared), instance.values(minimiser)
            worst, ratio = error, float(one @ two) / max(float(two @ two), 1e-300)
    multiple = f"{ratio:.4g} times" if abs(ratio - 1) > 1e-6 else "not"
    found = explained(instance.formulation, explain_recovery) if not worst <= 1e-6 else None
    return judged(
        "plane from dual",
        worst,
        1e-6,
        "declared plane = minimiser of the Lagrangian at random multipliers",
        found
        or f"recovery: the declared plane is {multiple} the plane that minimises the Lagrangian (values on the data "
        f"differ by {worst:.2g})",
    )


# --- the fast solver -----------------------------------------------------------------------------------------


def sor_agreement(instance: Instance) -> Iterator[Row]:
    """SOR, reading the declared dual, agrees with each general solver on the primal: value and plane."""
    if isinstance(instance.compiled, NotCompilable):
        yield skipped("SOR agreement", f"SOR does not apply: {instance.compiled}")
        return
    assert instance.sor is not None
    result, plane = instance.sor
    gap = instance.sor_gap
    if gap > ACCURATE:
        yield Row(
            "SOR agreement",
            gap,
            ACCURATE,
            "solver",
            f"SOR says {result.status!r} with a relative gap of {gap:.1e}",
            solver="sor",
        )
        return
    value = instance.compiled.primal_value(instance.S, instance.R, plane)
    for name, solution in instance.primal_solutions.items():
        if solution.error > ACCURATE:
            yield fell_short("SOR agreement", solution, "primal")
            continue
        error = relative(value, solution.value)
        yield judged(
            "SOR agreement",
            error,
            VALUES + solution.error + gap,
            f"SOR's value = {name}'s = {value:.9g}",
            f"SOR, from the declared dual, finds {value:.9g}; {name}, from the declared primal, {solution.value:.9g}",
            solver=name,
        )
    reference = instance.best_primal()
    if reference is not None:
        yield compare_planes(instance, "SOR agreement", plane, gap, reference, "SOR's plane", "planes")


def certified_gap(instance: Instance) -> Iterator[Row]:
    """A bound on how far SOR's plane is from optimal, from data, plane and multipliers alone, rounding included."""
    if isinstance(instance.compiled, NotCompilable):
        yield skipped("certified gap", f"SOR does not apply: {instance.compiled}")
        return
    assert instance.sor is not None
    result, _ = instance.sor
    how = f"{result.status} after {result.sweeps} sweeps"
    gap = instance.sor_gap
    if np.isfinite(instance.proved):
        sentence = f"proved: within {gap:.1e} of the optimum, rounding included ({how})"
    else:  # a coefficient without a ridge, or nothing to repair by
        need = "the conjugate's numbers" if isinstance(instance.compiled, Steps) else "a ridge on every coefficient"
        sentence = f"gap {gap:.1e} of the optimum in floating point; a proof needs {need} ({how})"
    status: Status = "pass" if gap <= ACCURATE else "solver"
    yield Row("certified gap", gap, ACCURATE, status, sentence, solver="sor")


CHECKS = (
    curvature,
    dual_function,
    conjugate,
    weak_duality,
    strong_duality,
    conic_dual,
    kkt,
    plane_from_dual,
    sor_agreement,
    certified_gap,
    reductions,
    invariances,
)
"""Every check of one plane, in the order of the report."""

DERIVATION = (
    dual_function,
    conjugate,
    weak_duality,
    strong_duality,
    conic_dual,
    plane_from_dual,
    sor_agreement,
    reductions,
)
"""The checks that see a mistake in the derivation, for a second setting of the hyperparameters."""
