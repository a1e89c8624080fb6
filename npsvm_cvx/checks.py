"""The checks, one function each: an instance in, rows of evidence out.  Draws no conclusion beyond its own row.

A row's status is

- ``pass`` or ``fail``: the check ran, and what it found concerns the formulation;
- ``solver``: a solver did not deliver an answer accurate enough to conclude from, whatever it claimed;
- ``skip``: the check does not apply, and the row says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import cvxpy as cp
import numpy as np
from sklearn.base import clone

from .catalog import resolve
from .compile import NotCompilable
from .errors import CurvatureError
from .instance import ACCURATE, Instance
from .linalg import Array
from .modeling import Formulation, Framework, Reduction, conjugate_of
from .solvers import ProgramSolution, solve_program

Status = Literal["pass", "fail", "solver", "skip"]
VALUES = 1e-6
"""Relative tolerance on objective values."""
PLANES = 1e-4
"""Relative tolerance on the planes' values on the data."""


@dataclass(frozen=True)
class Row:
    """One piece of evidence: what was checked, the figure, its tolerance, the status, and the sentence.

    ``seconds`` and ``claim`` (a solver's own word for how it ended) go with the rows that judge one solve.
    """

    check: str
    value: float
    tolerance: float
    status: Status
    meaning: str
    plane: str = ""
    solver: str = ""
    seconds: float = float("nan")
    claim: str = ""


def _row(check: str, value: float, tolerance: float, good: str, bad: str, solver: str = "") -> Row:
    fine = bool(value <= tolerance)
    return Row(check, float(value), tolerance, "pass" if fine else "fail", good if fine else bad, solver=solver)


def _skip(check: str, why: str, solver: str = "") -> Row:
    return Row(check, float("nan"), float("nan"), "skip", why, solver=solver)


def _relative(one: float, two: float) -> float:
    return abs(one - two) / max(abs(one), abs(two), 1e-300)


# --- what is declared ----------------------------------------------------------------------------------------


def curvature(instance: Instance) -> Iterator[Row]:
    """The primal is convex and the dual concave by CVXPY's rules, here and at other hyperparameter values."""
    tried = 0
    for factors in ((1.0, 1.0), (2**-8, 2**8), (2**8, 2**-8)):
        changed = clone(instance.formulation)
        here = {
            name: float(value) * factors[i % 2]
            for i, (name, value) in enumerate(sorted(changed.get_params(deep=False).items()))
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        changed.set_params(**here)
        try:
            changed.check_hyperparameters()
        except ValueError:
            continue  # outside its interval: not a value anybody can ask for
        tried += 1
        for form in ("primal", "dual"):
            try:
                changed.program(form, instance.S, instance.R)
            except CurvatureError as error:
                yield Row("curvature", 1.0, 0.0, "fail", str(error))
                return
    yield Row("curvature", 0.0, 0.0, "pass", f"convex primal, concave dual, at {tried} settings of the hyperparameters")


def conjugate(instance: Instance) -> Iterator[Row]:
    """Fenchel-Young: the declared L* is ``sup_t (v t - L(t))``, inside, outside and on the edge of its domain."""
    formulation = instance.formulation
    if not isinstance(formulation, Framework):
        yield _skip("conjugate", "not declared by a loss: the dual function is checked instead")
        return
    loss = formulation.loss
    if loss.conjugate is None:
        yield _skip("conjugate", "the loss declares no conjugate: the conic dual stands in")
        return
    low, high = _slopes(loss)
    probes = _probes(low, high)
    declared = [_declared_conjugate(loss, v) for v in probes]
    worst, sentence = 0.0, ""
    for v, (value, feasible) in zip(probes, declared, strict=True):
        inside = low - 1e-9 <= v <= high + 1e-9
        if inside != feasible:
            where = "inside" if feasible else "outside"
            truth = f"finite on [{low:.6g}, {high:.6g}]"
            yield Row(
                "conjugate",
                abs(v),
                0.0,
                "fail",
                f"conjugate domain: v = {v:.6g} is declared {where} the domain, but sup_t (v t - L(t)) is {truth}",
            )
            return
        if not inside:
            continue
        supremum = _supremum(loss, v)
        error = abs(value - supremum) / max(1.0, abs(supremum), abs(value))
        if error > worst:
            worst = error
            sentence = f"conjugate value: at v = {v:.6g} declared {value:.8g}, sup_t (v t - L(t)) is {supremum:.8g}"
    yield _row(
        "conjugate", worst, 1e-7, f"L* is the supremum on [{low:.4g}, {high:.4g}] and infinite outside", sentence
    )


def _loss_at(loss: object, t: Array) -> Array:
    value = loss.value(cp.Constant(t)).value  # type: ignore[attr-defined]
    return np.asarray(value, dtype=float).reshape(t.shape)


def _slopes(loss: object) -> tuple[float, float]:
    """The slopes of L at minus and plus infinity: the ends of the conjugate's domain."""
    ends = []
    for sign in (-1.0, 1.0):
        t = sign * np.array([1e4, 2e4, 2e6, 4e6])
        value = _loss_at(loss, t)
        near, far = (value[1] - value[0]) / (t[1] - t[0]), (value[3] - value[2]) / (t[3] - t[2])
        steady = np.isfinite(far) and abs(far - near) <= 1e-3 * max(1.0, abs(near))
        ends.append(float(far) if steady else sign * np.inf)
    snapped = [float(f"{e:.7g}") + 0.0 if np.isfinite(e) else e for e in ends]
    return snapped[0], snapped[1]


def _probes(low: float, high: float) -> list[float]:
    left = low if np.isfinite(low) else -8.0
    right = high if np.isfinite(high) else 8.0
    width = max(right - left, 1.0)
    inside = [left + share * (right - left) for share in (0.01, 0.13, 0.37, 0.5, 0.71, 0.99)]
    edges = [e for e in (low, high) if np.isfinite(e)]
    outside = [left - share * width for share in (0.01, 0.3, 2.0) if np.isfinite(low)]
    outside += [right + share * width for share in (0.01, 0.3, 2.0) if np.isfinite(high)]
    return [*inside, *edges, *outside]


def _declared_conjugate(loss: object, v: float) -> tuple[float, bool]:
    point = cp.Constant(np.array([v]))
    value, domain = conjugate_of(loss, point)  # type: ignore[arg-type]
    feasible = all(float(np.max(c.violation(), initial=0.0)) <= 1e-9 for c in domain)
    got = value.value
    return float("inf") if got is None else float(np.asarray(got).ravel()[0]), feasible


def _supremum(loss: object, v: float) -> float:
    """``sup_t (v t - L(t))`` by shrinking grids: the function is concave, so the best of a grid brackets it."""
    low, high = -1e6, 1e6
    best = -np.inf
    for _ in range(60):
        grid = np.linspace(low, high, 401)
        value = v * grid - _loss_at(loss, grid)
        at = int(np.nanargmax(value))
        best = max(best, float(value[at]))
        low, high = grid[max(at - 1, 0)], grid[min(at + 1, 400)]
        if high - low < 1e-10:
            break
    return best


# --- the derivation ------------------------------------------------------------------------------------------


def dual_function(instance: Instance) -> Iterator[Row]:
    """At random multipliers the declared dual objective is the infimum of the Lagrangian; outside, it is -inf."""
    dual = instance.dual
    if dual is None:
        yield _skip("dual function", "no dual is declared: the conic dual stands in")
        return
    if not dual.multipliers:
        yield _skip("dual function", "the dual does not say what the multipliers are")
        return
    lagrangian, domain = instance.lagrangian, instance.domain
    centre, points = instance.points
    if not points:
        yield Row("dual domain", float("inf"), 0.0, "fail", "dual: no multipliers satisfy the declared constraints")
        return
    worst, sentence, exact = 0.0, "", True
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
                f"dual domain: the declared constraints let the multiplier of [{name}] be {negative:.4g}, and a "
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
                "dual domain: at declared multipliers the Lagrangian is unbounded below: the domain is too wide, "
                "or a multiplier is not the one of its constraint",
            )
            return
        if np.isnan(infimum.value):
            continue
        error = abs(declared - infimum.value) / max(abs(declared), abs(infimum.value), infimum.scale, 1e-300)
        if error >= worst:
            worst = error
            sentence = f"declared {declared:.8g}, infimum of the Lagrangian {infimum.value:.8g}"
    tolerance = 1e-8 if exact else 1e-7
    explained = _explain_dual(instance, points) if worst > tolerance else None
    yield _row(
        "dual function",
        worst,
        tolerance,
        f"declared objective = infimum of the Lagrangian at {len(points)} random multipliers",
        f"dual objective: {sentence}" + (f"; {explained}" if explained else ""),
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
        elif np.isnan(infimum.value):
            unknown.append(point.constraint)
        else:
            yield Row(
                "dual domain",
                1.0,
                0.0,
                "fail",
                f"dual domain: beyond the declared [{point.constraint}] the Lagrangian still has a finite infimum "
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


def _explain_dual(instance: Instance, points: list[Array]) -> str | None:
    """Fit declared objective and infimum over e'a, a'Qa, |a|^2 and a constant; return the coefficient that differs."""
    dual, lagrangian, domain = instance.dual, instance.lagrangian, instance.domain
    assert dual is not None
    if len(domain.variables) != 1 or domain.size != len(instance.R) or isinstance(dual.plane, str):
        return None
    centre = np.mean(points, axis=0)
    rng = np.random.default_rng(instance.seed + 2)
    features, declared, true = [], [], []
    for _ in range(12):
        weights = rng.dirichlet(np.ones(len(points)))
        a = centre + (weights[:, None] * (np.array(points) - centre)).sum(axis=0)
        infimum = lagrangian.infimum(domain.multipliers(a))
        if not infimum.attained:
            return None
        z = np.asarray(instance.primal.plane.value)  # type: ignore[union-attr]
        features.append([a.sum(), float((instance.R @ z) @ a), float(a @ a), 1.0])
        true.append(infimum.value)
        declared.append(domain.objective(a))
    matrix = np.array(features)
    scale = np.maximum(np.abs(matrix).max(axis=0), 1e-300)
    found = {}
    for name, target in (("declared", declared), ("true", true)):
        fit, *_ = np.linalg.lstsq(matrix / scale, np.array(target), rcond=None)
        if np.abs(matrix / scale @ fit - target).max() > 1e-6 * max(np.abs(target).max(), 1e-300):
            return None
        found[name] = fit / scale
    terms = ("e'a", "a'Qa", "|a|^2", "the constant")
    difference = np.abs(found["declared"] - found["true"]) * scale
    at = int(np.argmax(difference))
    return (
        f"the coefficient of {terms[at]} is {found['declared'][at]:.4g}; the Lagrangian gives {found['true'][at]:.4g}"
    )


def weak_duality(instance: Instance) -> Iterator[Row]:
    """No declared dual value exceeds the primal's optimum."""
    best = instance.best_primal()
    if instance.dual is None:
        yield _skip("weak duality", "no dual is declared")
    elif best is None:
        yield Row("weak duality", float("nan"), VALUES, "solver", "no solver solved the primal accurately")
    else:
        points = [instance.domain.objective(theta) for theta in instance.points[1]]
        solved = instance.best_dual()
        values = [*points, solved.value] if solved is not None else points
        excess = max([0.0, *((value - best.value) / max(abs(best.value), 1e-300) for value in values)])
        yield _row(
            "weak duality",
            excess,
            VALUES + best.error,
            f"no dual value exceeds the primal's optimum: {len(points)} at random multipliers, and the largest",
            f"weak duality: a declared dual value exceeds the primal's optimum {best.value:.8g} by {excess:.2g} of it",
        )


def strong_duality(instance: Instance) -> Iterator[Row]:
    """The primal's value by one solver is the dual's by another."""
    if instance.dual is None:
        yield _skip("strong duality", "no dual is declared")
        return
    for name, primal in instance.primal_solutions.items():
        dual = instance.best_dual(other_than=name)
        if primal.error > ACCURATE:
            yield _solver_row("strong duality", primal, "primal")
            continue
        if dual is None:
            yield _no_dual(instance, name)
            continue
        error = _relative(primal.value, dual.value)
        yield _row(
            "strong duality",
            error,
            VALUES + primal.error + dual.error,
            f"primal ({name}) = dual ({dual.solver}) = {primal.value:.9g}",
            f"primal optimum {primal.value:.9g} ({name}) is not the dual optimum {dual.value:.9g} ({dual.solver})",
            solver=name,
        )


def _no_dual(instance: Instance, name: str) -> Row:
    claims = {s.status for s in instance.dual_solutions.values()}
    if claims & {"unbounded", "infeasible"}:
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


def _solver_row(check: str, solution: ProgramSolution, what: str) -> Row:
    claim = f"{solution.solver} says {solution.status!r} of the {what}"
    if solution.plane is None:
        return Row(
            check,
            float("inf"),
            ACCURATE,
            "solver",
            f"{claim} ({solution.detail})",
            solver=solution.solver,
            seconds=solution.seconds,
            claim=solution.status,
        )
    return Row(
        check,
        solution.error,
        ACCURATE,
        "solver",
        f"{claim}; its residuals are {solution.error:.1e}: the solver, not the formulation",
        solver=solution.solver,
        seconds=solution.seconds,
        claim=solution.status,
    )


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
    error = _relative(implied, against.value)
    yield _row(
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
    for what, solutions in (("primal", instance.primal_solutions), ("dual", instance.dual_solutions)):
        for solution in solutions.values():
            if solution.error > ACCURATE:
                yield _solver_row("KKT", solution, what)
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
    return _row(
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
        yield _skip("plane from dual", "no dual is declared")
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
            rows.append(_solver_row("plane from dual", solution, "dual"))
            continue
        what = f"the plane declared by the dual ({name})"
        rows.append(_compare_planes(instance, "plane from dual", solution.plane, solution.error, reference, what, name))
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
    return _row(
        "plane from dual",
        worst,
        1e-6,
        "declared plane = minimiser of the Lagrangian at random multipliers",
        f"recovery: the declared plane is {multiple} the plane that minimises the Lagrangian (values on the data "
        f"differ by {worst:.2g})",
    )


def _compare_planes(
    instance: Instance, check: str, plane: Array, error: float, reference: ProgramSolution, what: str, solver: str
) -> Row:
    """Compare with the reference plane; where they differ, by the primal's value at the plane."""
    assert reference.plane is not None
    distance = instance.distance(plane, reference.plane)
    if distance <= PLANES:
        return Row(check, distance, PLANES, "pass", f"{what} is the primal's ({reference.solver})", solver=solver)
    at = instance.value_at(plane)
    excess = max(at - reference.value, 0.0) / max(abs(at), abs(reference.value), 1e-300)
    gaps = instance.supported(error, reference.error)
    close = bool(distance <= gaps and np.isfinite(gaps))
    if excess <= VALUES + reference.error:
        why = "the gaps do not fix it closer" if close else "it is not the only optimal one"
        return Row(
            check,
            excess,
            VALUES,
            "pass",
            f"{what} is as good as the primal's: values on the data differ by {distance:.1e}, {why}",
            solver=solver,
        )
    if close:
        return Row(
            check,
            distance,
            PLANES,
            "solver",
            f"{what} differs by {distance:.1e} on the data, no more than the solvers' gaps allow ({gaps:.0e})",
            solver=solver,
        )
    return Row(
        check,
        distance,
        PLANES,
        "fail",
        f"{what} is not the primal's: values on the data differ by {distance:.2g}, and there the primal is "
        f"{at:.6g} against its optimum {reference.value:.6g}",
        solver=solver,
    )


# --- the fast solver -----------------------------------------------------------------------------------------


def sor_agreement(instance: Instance) -> Iterator[Row]:
    """SOR, reading the declared dual, agrees with each general solver on the primal: value and plane."""
    if isinstance(instance.compiled, NotCompilable):
        yield _skip("SOR agreement", f"SOR does not apply: {instance.compiled}")
        return
    assert instance.sor is not None
    result, plane = instance.sor
    if result.relative_gap > ACCURATE:
        yield Row(
            "SOR agreement",
            result.relative_gap,
            ACCURATE,
            "solver",
            f"SOR says {result.status!r} with a relative gap of {result.relative_gap:.1e}",
            solver="sor",
        )
        return
    value = instance.compiled.primal_value(instance.S, instance.R, plane)
    for name, solution in instance.primal_solutions.items():
        if solution.error > ACCURATE:
            yield _solver_row("SOR agreement", solution, "primal")
            continue
        error = _relative(value, solution.value)
        yield _row(
            "SOR agreement",
            error,
            VALUES + solution.error,
            f"SOR's value = {name}'s = {value:.9g}",
            f"SOR, from the declared dual, finds {value:.9g}; {name}, from the declared primal, {solution.value:.9g}",
            solver=name,
        )
    reference = instance.best_primal()
    if reference is not None:
        yield _compare_planes(instance, "SOR agreement", plane, result.relative_gap, reference, "SOR's plane", "planes")


def certified_gap(instance: Instance) -> Iterator[Row]:
    """A bound on how far SOR's plane is from optimal, from data, plane and multipliers alone, rounding included."""
    if isinstance(instance.compiled, NotCompilable):
        yield _skip("certified gap", f"SOR does not apply: {instance.compiled}")
        return
    assert instance.sor is not None
    result, plane = instance.sor
    how = f"{result.status} after {result.sweeps} sweeps"
    proof = instance.compiled.proof(instance.S, instance.R, plane, result.a)
    if proof is None:
        gap, sentence = result.relative_gap, f"gap {result.relative_gap:.1e} of the optimum, not rigorous ({how})"
    else:
        gap = proof.check().relative_gap
        sentence = f"proved: within {gap:.1e} of the optimum, rounding included ({how})"
    status: Status = "pass" if gap <= ACCURATE else "solver"
    yield Row("certified gap", gap, ACCURATE, status, sentence, solver="sor")


# --- what must not matter, and what it must equal ------------------------------------------------------------


def reductions(instance: Instance) -> Iterator[Row]:
    """What the formulation's file claims it equals."""
    claims = list(instance.formulation.reductions())
    if not claims:
        yield _skip("reductions", "none declared")
        return
    for claim in claims:
        yield _reduction(instance, claim)


def _reduction(instance: Instance, claim: Reduction) -> Row:
    S, R = claim.rows(instance.S, instance.R)
    this = resolve(claim.of) if claim.of is not None else instance.formulation
    ours = instance.best_primal() if claim.of is None else _reference(this, instance.S, instance.R, instance)
    if ours is None or ours.plane is None:
        return Row("reductions", float("nan"), PLANES, "solver", "no solver solved the primal accurately")
    if isinstance(claim.to, Formulation):
        theirs = _reference(claim.to, S, R, instance)
        if theirs is None or theirs.plane is None:
            return Row("reductions", float("nan"), PLANES, "solver", f"{claim.claim}: the other side was not solved")
        other = claim.plane(theirs.plane)
        values = _relative(ours.value, theirs.value)
        if values > VALUES + ours.error + theirs.error:
            return Row(
                "reductions",
                values,
                VALUES,
                "fail",
                f"not {claim.claim}: optimum {ours.value:.8g} against {theirs.value:.8g}",
            )
        error = theirs.error
    else:
        other, error = claim.plane(np.asarray(claim.to(S, R), dtype=float)), 0.0
    if claim.of is None:
        row = _compare_planes(instance, "reductions", other, error, ours, "its plane", "")
    else:
        distance = instance.distance(other, ours.plane)
        row = _row("reductions", distance, PLANES, "", f"values on the data differ by {distance:.2g}")
    meaning = claim.claim if row.status == "pass" else f"not {claim.claim}: {row.meaning}"
    return replace(row, meaning=meaning)


def _reference(formulation: Formulation, S: Array, R: Array, instance: Instance) -> ProgramSolution | None:
    """The first accurate solution of another primal, by the solvers in their order."""
    program = formulation.program("primal", S, R)
    assert program is not None
    for name in instance.solvers:
        solution = solve_program(program, name, instance.options)
        if solution.error <= ACCURATE:
            return solution
    return None


def invariances(instance: Instance) -> Iterator[Row]:
    """Row order, every row twice with the ridge doubled, a rotation of the features: the plane's values stay."""
    reference = instance.best_primal()
    if reference is None or reference.plane is None:
        yield Row("invariances", float("nan"), PLANES, "solver", "no solver solved the primal accurately")
        return
    rng = np.random.default_rng(instance.seed + 3)
    S, R, formulation = instance.S, instance.R, instance.formulation
    for what in formulation.invariances:
        changed, factor, back = formulation, 1.0, None
        if what == "row order":
            rows = S[rng.permutation(len(S))], R[rng.permutation(len(R))]
        elif what == "repetition" and not hasattr(formulation, formulation.ridge):
            yield _skip("invariances", f"repetition: there is no hyperparameter {formulation.ridge!r} to double")
            continue
        elif what == "repetition":
            rows = np.vstack([S, S]), np.vstack([R, R])
            changed, factor = clone(formulation), 2.0
            changed.set_params(**{formulation.ridge: 2 * getattr(formulation, formulation.ridge)})
        elif what == "rotation":
            turn = np.eye(S.shape[1])
            turn[:-1, :-1] = np.linalg.qr(rng.normal(size=(S.shape[1] - 1,) * 2))[0]
            rows, back = (S @ turn, R @ turn), turn
        else:
            yield Row("invariances", float("nan"), PLANES, "fail", f"the declared invariance {what!r} is not known")
            continue
        yield _invariance(instance, what, changed, rows, factor, back, reference)


def _invariance(
    instance: Instance,
    what: str,
    changed: Formulation,
    rows: tuple[Array, Array],
    factor: float,
    back: Array | None,
    reference: ProgramSolution,
) -> Row:
    other = _reference(changed, *rows, instance)
    if other is None or other.plane is None:
        return Row("invariances", float("nan"), PLANES, "solver", f"{what}: the changed problem was not solved")
    values = _relative(other.value, factor * reference.value)
    if values > VALUES + other.error + reference.error:
        return Row(
            "invariances",
            values,
            VALUES,
            "fail",
            f"{what}: the optimum {reference.value:.8g} became {other.value / factor:.8g} and should not change",
        )
    plane = other.plane if back is None else back @ other.plane
    row = _compare_planes(instance, "invariances", plane, other.error, reference, "the plane", "")
    return replace(row, meaning=f"{what}: {'nothing changes' if row.status == 'pass' else row.meaning}")


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

DERIVATION = (dual_function, conjugate, weak_duality, strong_duality, conic_dual, plane_from_dual, sor_agreement)
"""The checks that see a mistake in the derivation, for a second setting of the hyperparameters."""
