"""A row of evidence, its status and tolerances, and the judgements that several checks share.

A row's status is

- ``pass`` or ``fail``: the check ran, and what it found concerns the formulation;
- ``solver``: a solver did not deliver an answer accurate enough to conclude from, whatever it claimed;
- ``skip``: the check does not apply, and the row says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from .instance import ACCURATE, Instance
from .linalg import Array
from .solvers import ProgramSolution

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


def judged(check: str, value: float, tolerance: float, good: str, bad: str, solver: str = "") -> Row:
    """Return a row that passes if the value is within the tolerance, with the sentence that then holds."""
    fine = bool(value <= tolerance)
    return Row(check, float(value), tolerance, "pass" if fine else "fail", good if fine else bad, solver=solver)


def skipped(check: str, why: str, solver: str = "") -> Row:
    """Return the row of a check that does not apply."""
    return Row(check, float("nan"), float("nan"), "skip", why, solver=solver)


def relative(one: float, two: float) -> float:
    """Return how far two numbers are apart, relative to the larger."""
    return abs(one - two) / max(abs(one), abs(two), 1e-300)


def fell_short(check: str, solution: ProgramSolution, what: str) -> Row:
    """Return the row of an answer that is not accurate enough to be evidence."""
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
        f"{claim}; its error is {solution.error:.1e}: the solver, not the formulation",
        solver=solution.solver,
        seconds=solution.seconds,
        claim=solution.status,
    )


def compare_planes(
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
