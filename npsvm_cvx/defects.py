"""What verification makes of a mutant: caught, equivalent or escaped, by which check, and in which words.

The two judgements are kept apart.  Whether a mutant changes the mathematics is decided by comparing it with the
original, function by function, at several settings, without any check; whether it is caught is what :func:`verify`
says of its file alone, as it would of a user's.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np

from .catalog import load
from .errors import NPSVMError
from .evidence import Row
from .lagrangian import DualDomain, Lagrangian
from .linalg import Array
from .modeling import Formulation, Program
from .mutation import Mutant
from .solvers import value_with_plane_fixed
from .verification import Verification, generic, verify

REFUSED = "declaration"
"""The check that a file fails which cannot be loaded at all."""


@dataclass(frozen=True)
class Judgement:
    """One mutant's fate.

    Attributes
    ----------
    outcome : str
        ``caught``; ``equivalent`` (not caught, and the same mathematics); ``escaped`` (not caught, and another);
        ``false alarm`` (caught, though the same mathematics); ``crashed`` (an error that is no sentence).
    first : str
        The check that the diagnosis speaks for; empty where nothing failed.
    checks : tuple of str
        Every check with a failed row.
    line : str
        The first line of the diagnosis, or for an equivalent mutant the reason that it is one.
    seconds : float
    """

    outcome: str
    first: str
    checks: tuple[str, ...]
    line: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, the checks joined by semicolons."""
        return {**asdict(self), "checks": "; ".join(self.checks)}


def judge(original: Formulation, mutant: Mutant, folder: Path, **options: Any) -> Judgement:
    """Write the mutant to a file in ``folder``, verify it, compare it with the original, and say what came of it.

    Parameters
    ----------
    original : Formulation
        What the mutant's file was made from.
    mutant : Mutant
    folder : Path
    **options
        Of :func:`npsvm_cvx.verify`.
    """
    begin = time.perf_counter()
    path = folder / "mutant.py"
    path.write_text(mutant.source, encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a mutant may divide by zero
        try:
            failed, line = _verdict(verify(path, **options))
        except NPSVMError as error:
            failed, line = [REFUSED], str(error)
        except Exception as error:
            return Judgement("crashed", "", (), f"{type(error).__name__}: {error}", time.perf_counter() - begin)
        reason = same_mathematics(original, path)
    if failed:
        outcome = "caught" if reason is None else "false alarm"
    else:
        outcome, line = ("escaped", line) if reason is None else ("equivalent", reason)
    first = failed[0] if failed else ""
    return Judgement(outcome, first, tuple(sorted(set(failed))), line, time.perf_counter() - begin)


def _verdict(answer: Verification) -> tuple[list[str], str]:
    """Return the checks that failed, first the one that the diagnosis speaks for, and the diagnosis's first line."""
    failed = [row for row in answer.rows if row.status == "fail"]
    line = answer.diagnosis.splitlines()[0]
    if not failed:
        return [] if answer.passed else ["undecided"], line
    return [_spoken_for(failed, line).check, *dict.fromkeys(row.check for row in failed)], line


def _spoken_for(failed: Sequence[Row], line: str) -> Row:
    """Return the row whose sentence shares the longest beginning with the line."""

    def shared(row: Row) -> int:
        pairs = zip(row.meaning, line, strict=False)
        return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(row.meaning), len(line)))

    return max(failed, key=shared)


# --- is it the same mathematics? ------------------------------------------------------------------


def same_mathematics(original: Formulation, path: Path) -> str | None:
    """Return why the file states what the original states, or None where it does not.

    Compared, at four settings of the hyperparameters on random rows: the primal as a function of the plane alone (its
    slacks minimised out), at planes of three sizes; the dual's objective, its recovery and its multipliers, at random
    points; its domain, at random points and either side of every multiple of a hyperparameter that a bound may be; the
    infimum of the Lagrangian, at points of the domain and beyond each of its bounds; and each claimed reduction, both
    sides.
    """
    try:
        mutated = load(path)
    except NPSVMError:
        return None
    rng = np.random.default_rng(0)
    settings = _settings(original)
    for setting in settings:
        one, two = original.__class__(**setting), mutated(**setting)
        S = np.column_stack([rng.normal(size=(9, 3)), np.ones(9)])
        R = np.column_stack([rng.normal(size=(7, 3)) + 0.4, np.ones(7)])
        try:
            if not (_same_programs(one, two, S, R, rng) and _same_claims(one, two, S, R, rng)):
                return None
        except Exception:  # where the original has a value, the other cannot even be evaluated
            return None
    dropped = _left_out(original, mutated(), S, R)
    note = f"[{dropped}] stays a constraint where the Lagrangian is minimised, and " if dropped else ""
    return (
        f"{note}primal, dual objective, domain, recovery, the Lagrangian's infimum and the claims agree with the "
        f"original's at {len(settings)} settings"
    )


_FACTORS = ((0.37, 2.3, 0.6, 1.4), (2.3, 0.37, 1.4, 0.6))


def _settings(original: Formulation) -> list[dict[str, float]]:
    start = type(original)().get_params()
    moved = [found.get_params() for factors in _FACTORS if (found := generic(original, factors))]
    # an interval holds what lies between two of its points
    between = [{k: (v + 3 * there[k]) / 4 for k, v in start.items()} for there in moved[:1]]
    return [start, *moved, *between]


def _same_programs(one: Formulation, two: Formulation, S: Array, R: Array, rng: np.random.Generator) -> bool:
    first, second = one.program("primal", S, R), two.program("primal", S, R)
    assert first is not None
    assert second is not None
    for scale in (0.1, 1.0, 3.0):
        z: Any = scale * rng.normal(size=S.shape[1])
        if not _close(value_with_plane_fixed(first, z), value_with_plane_fixed(second, z), 1e-6):
            return False
    duals = one.program("dual", S, R), two.program("dual", S, R)
    if duals[0] is None or duals[1] is None:
        return duals[0] is duals[1]
    return _same_duals(duals[0], duals[1], _scales(one), rng) and _same_lagrangians(
        (first, second), (duals[0], duals[1]), rng
    )


def _scales(formulation: Formulation) -> list[float]:
    values = [float(v) for v in formulation.get_params().values() if isinstance(v, int | float) and v > 0]
    return sorted({1.0, *values, *(v * w for v in values for w in values)})


def _same_duals(one: Program, two: Program, scales: list[float], rng: np.random.Generator) -> bool:
    first, second = DualDomain(one), DualDomain(two)
    shapes = [[v.shape for v in domain.variables] for domain in (first, second)]
    if (
        shapes[0] != shapes[1]
        or isinstance(one.plane, str) != isinstance(two.plane, str)
        or (isinstance(one.plane, str) and one.plane != two.plane)
    ):
        return False
    points = [scale * rng.normal(size=first.size) for scale in (0.1, 1.0, 3.0) for _ in range(3)]
    for theta in points:
        if not _close(first.objective(theta), second.objective(theta), 1e-9):
            return False
        multipliers = first.multipliers(theta), second.multipliers(theta)
        if not all(_close(multipliers[0].get(name), value, 1e-9) for name, value in multipliers[1].items()):
            return False
        if not _close(_equations(one), _equations(two), 1e-9):
            return False
        if not isinstance(one.plane, str) and not _close(one.plane_value(), two.plane_value(), 1e-9):
            return False
    return all(_inside(first, theta) == _inside(second, theta) for theta in [*points, *_around(first, scales)])


def _around(domain: DualDomain, scales: list[float]) -> Iterable[Array]:
    """Yield points either side of every bound that is a multiple of the scales, one block of variables at a time."""
    starts = [0, *domain.ends[:-1]]
    for start, end in zip(starts, domain.ends, strict=True):
        for scale in scales:
            for factor in (0.001, 0.05, 0.2, 0.49, 0.51, 0.97, 1.03, 1.9, 2.1, 5.0):
                for sign in (-1.0, 1.0):
                    theta = np.zeros(domain.size)
                    theta[start:end] = sign * scale * factor
                    yield theta


def _equations(dual: Program) -> Array:
    """Return what the dual's equations are off by, at the variables' present values."""
    found = [c.expr.value for c in dual.constraints.values() if isinstance(c, cp.constraints.zero.Equality)]
    return np.concatenate([np.atleast_1d(value) for value in found]) if found else np.zeros(0)


def _inside(domain: DualDomain, theta: Array) -> bool:
    broken = domain.violations(theta)
    return not any(
        broken[name] > 1e-9
        for name, c in domain.dual.constraints.items()
        if not isinstance(c, cp.constraints.zero.Equality)
    )


def _same_lagrangians(
    primals: tuple[Program, Program], duals: tuple[Program, Program], rng: np.random.Generator
) -> bool:
    if not duals[0].multipliers:
        return not duals[1].multipliers
    sides = [
        (Lagrangian(primal, list(dual.multipliers)), DualDomain(dual))
        for primal, dual in zip(primals, duals, strict=True)
    ]
    centre, points = sides[0][1].inside([0.3, 1.0, 3.0], rng)
    for theta in [*points, *(beyond.theta for beyond in sides[0][1].outside(centre, rng))]:
        one, two = (_dual_function(lagrangian, domain.multipliers(theta)) for lagrangian, domain in sides)
        if not _close(one, two, 1e-6):
            return False
    return True


def _dual_function(lagrangian: Lagrangian, multipliers: dict[str, Array]) -> float:
    """Return the infimum, which counts as minus infinity where the multiplier of an inequality is negative."""
    size = max(float(np.abs(m).max(initial=0.0)) for m in multipliers.values())
    if lagrangian.most_negative(multipliers)[1] < -1e-9 * size:
        return -np.inf
    return lagrangian.infimum(multipliers).value


def _same_claims(one: Formulation, two: Formulation, S: Array, R: Array, rng: np.random.Generator) -> bool:
    claims = list(one.reductions()), list(two.reductions())
    if len(claims[0]) != len(claims[1]):
        return False
    for first, second in zip(*claims, strict=True):
        z: Any = rng.normal(size=S.shape[1])
        if not (_close(first.plane(z), second.plane(z), 1e-12) and _same_side(first.of, second.of)):
            return False
        this, that = (_other_side(claim.to, claim.rows(S, R), z) for claim in (first, second))
        if not _close(this, that, 1e-6):
            return False
    return True


def _other_side(to: Any, rows: tuple[Array, Array], z: Array) -> Any:
    """Return what a claim compares with, as numbers: a closed form's plane, or a primal's value at a plane."""
    if not isinstance(to, Formulation):
        return to(*rows)
    program = to.program("primal", *rows)
    assert program is not None
    planes: list[Array] = [scale * z for scale in (0.1, 1.0, 3.0)]
    return [value_with_plane_fixed(program, plane) for plane in planes]


def _same_side(one: Any, two: Any) -> bool:
    if isinstance(one, Formulation) and isinstance(two, Formulation):
        return one.get_params() == two.get_params()
    return one is two


def _left_out(one: Formulation, two: Formulation, S: Array, R: Array) -> str:
    """Return the constraint whose multiplier only the first gives, or nothing."""
    duals = one.program("dual", S, R), two.program("dual", S, R)
    if duals[0] is None or duals[1] is None:
        return ""
    return next((name for name in duals[0].multipliers if name not in duals[1].multipliers), "")


def _close(one: Any, two: Any, tolerance: float) -> bool:
    if one is None or two is None:
        return one is two
    first, second = np.asarray(one, dtype=float), np.asarray(two, dtype=float)
    if first.shape != second.shape:
        return False
    with np.errstate(invalid="ignore"):
        apart = np.abs(first - second)
    finite = np.isfinite(first) & np.isfinite(second)
    same = (first == second) | finite & (
        apart <= tolerance * np.maximum(np.maximum(np.abs(first), np.abs(second)), 1e-3)
    )
    return bool(np.all(same))
