"""The checks of what a formulation's file claims: what it equals, and what must not change its plane."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from sklearn.base import clone

from .catalog import resolve
from .errors import NPSVMError
from .evidence import PLANES, VALUES, Row, compare_planes, judged, relative, skipped
from .instance import ACCURATE, Instance
from .linalg import Array
from .modeling import Formulation, Reduction, _one_line
from .solvers import ProgramSolution, solve_program


def reductions(instance: Instance) -> Iterator[Row]:
    """What the formulation's file claims it equals."""
    claims = list(instance.formulation.reductions())
    if not claims:
        yield skipped("reductions", "none declared")
        return
    for claim in claims:
        try:
            yield _reduction(instance, claim)
        except NPSVMError:
            raise
        except Exception as error:  # the author's own maps and closed forms
            what = f"{type(error).__name__}: {_one_line(error)}"
            yield Row("reductions", float("nan"), PLANES, "fail", f"not {claim.claim}: comparing them raised {what}")


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
        values = relative(ours.value, theirs.value)
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
        row = compare_planes(instance, "reductions", other, error, ours, "its plane", "")
    else:
        distance = instance.distance(other, ours.plane)
        row = judged("reductions", distance, PLANES, "", f"values on the data differ by {distance:.2g}")
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
            yield skipped("invariances", f"repetition: there is no hyperparameter {formulation.ridge!r} to double")
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
    values = relative(other.value, factor * reference.value)
    if values > VALUES + other.error + reference.error:
        return Row(
            "invariances",
            values,
            VALUES,
            "fail",
            f"{what}: the optimum {reference.value:.8g} became {other.value / factor:.8g} and should not change",
        )
    plane = other.plane if back is None else back @ other.plane
    row = compare_planes(instance, "invariances", plane, other.error, reference, "the plane", "")
    return replace(row, meaning=f"{what}: {'nothing changes' if row.status == 'pass' else row.meaning}")
