"""Reading numbers off a declared dual, by evaluating it.

On a small random instance the dual's objective, constraints and plane are evaluated at chosen points, the numbers are
read off, and the reading is checked at random points.  Must not know any formulation by name.
"""

from __future__ import annotations

import contextlib
from typing import Any

import cvxpy as cp
import numpy as np

from .errors import FormulationError
from .forms import Block, BoxLP, BoxQP, Coefficients
from .linalg import Array
from .modeling import Formulation, Program

EXACT = 1e-9  # relative error allowed in a reading; evaluations are exact to rounding


class NotCompilable(FormulationError):
    """The dual has a shape SOR does not solve; the message says which feature stands in the way."""


def read(formulation: Formulation, rows: int, margins: int, seed: int, size: float = 1.0) -> BoxQP | BoxLP:
    """Return the numbers of a formulation's declared dual, read on one random instance.

    Raises
    ------
    NotCompilable
        No dual is declared, or its shape is none of those known.
    """
    rng = np.random.default_rng(seed)
    d = 3
    S = size * np.column_stack([rng.normal(size=(rows, d - 1)), np.ones(rows)])
    R = size * np.column_stack([rng.normal(size=(margins, d - 1)), np.ones(margins)])
    primal = formulation.program("primal", S, R)
    dual = formulation.program("dual", S, R, beside=primal)
    if dual is None:
        raise NotCompilable(f"{type(formulation).__name__} {formulation.why_no_dual()}.")
    if isinstance(dual.plane, str):
        return _read_lp(dual, S, R, rng)
    # its multipliers have been checked: names and shapes are those of the dual above
    bare = formulation.program(
        "dual", S, 0.0 * R, beside=primal
    )  # without margin rows the quadratic vanishes: what is left is h
    assert bare is not None
    return _read_qp(dual, bare, S, R, rng)


class _Point:
    """Evaluates a program's objective, plane and constraint violations at given values of its variables."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.variables = program.variables
        if any(v.ndim != 1 for v in self.variables):
            raise NotCompilable("a variable of the dual is not a vector.")
        self.ends = np.cumsum([v.size for v in self.variables])
        self.size = int(self.ends[-1])

    def set(self, theta: Array) -> None:
        for variable, part in zip(self.variables, np.split(theta, self.ends[:-1]), strict=True):
            variable.value = part

    def objective(self, theta: Array) -> float:
        self.set(theta)
        value = self.program.objective.value
        return float("nan") if value is None else float(np.real(value))

    def violation(self, constraint: cp.Constraint, theta: Array) -> Array:
        """Return ``lhs - rhs`` of a constraint, elementwise."""
        self.set(theta)
        return np.atleast_1d(np.asarray(constraint.expr.value, dtype=float)).ravel()


def _read_qp(dual: Program, bare: Program, S: Array, R: Array, rng: np.random.Generator) -> BoxQP:
    n, d = R.shape
    at = _Point(dual)
    if len(at.variables) != 1 or at.size != n:
        raise NotCompilable("the dual has more than one multiplier a margin row.")
    assert not isinstance(dual.plane, str)

    def plane(a: Any) -> Array:
        at.set(a)
        return np.array(dual.plane.value, dtype=np.float64)  # type: ignore[union-attr]

    base = plane(np.zeros(n))
    to_plane = np.column_stack([plane(unit) - base for unit in np.eye(n)])
    probe: Any = rng.normal(size=n)
    _agree(base, np.zeros(d), "the declared plane is not linear in the multipliers")
    _agree(plane(probe), to_plane @ probe, "the declared plane is not linear in the multipliers")
    near, ridge = _read_metric(to_plane, S, R)

    constraints = list(dual.constraints.values())
    lower, upper = _read_box(at, constraints, [slice(0, n)])[0]
    inside = _interior(lower, upper)
    bounded = bool(np.isfinite(upper - lower))
    alone = _Point(bare)
    centre = np.full(n, inside)
    steps = [0.25 * (upper - lower)] if bounded else [10.0**power for power in range(0, 17, 2)]
    balanced = 0
    while steps:
        # without bounds to give the scale, widen the step until the second difference stands out of the rounding, and
        # then take one at which the linear and the quadratic part are alike
        step = steps.pop(0)
        if np.isfinite(lower) and not bounded:
            centre = np.full(n, inside := lower + step)
        elif np.isfinite(upper) and not bounded:
            centre = np.full(n, inside := upper - step)
        below, middle, above = (-alone.objective(centre + move) / n for move in (-step, 0.0, step))
        second = above - 2 * middle + below
        size = max(abs(below), abs(middle), abs(above))
        curvature = 0.0 if abs(second) <= 1e-11 * size else _round(second / step**2)
        slope = (above - below) / (2 * step)
        linear = _round(slope - curvature * inside)
        if abs(second) > 1e-3 * size and not bounded:
            wanted = abs(linear / curvature) if linear else step
            steps = [wanted] if balanced < 3 and not 0.1 < wanted / step < 10 else []
            balanced += 1
    constant = middle - linear * inside - curvature * inside**2 / 2
    noise = abs(middle) + abs(linear * inside) + curvature * inside**2 / 2
    if not np.isfinite([linear, curvature, constant]).all():
        raise NotCompilable("the dual's objective is not a finite number at its multipliers.")
    read = Coefficients(linear, curvature, lower, upper, _round(constant, noise))
    for _ in range(4):
        a: Any = inside + step * rng.uniform(-1, 1, size=n)
        quadratic, rest = float((R @ (to_plane @ a)) @ a) / 2, read.terms(n).h(a)
        scale = abs(quadratic) + abs(rest)
        if not abs(-at.objective(a) - quadratic - rest) <= 1e-8 * scale:
            raise NotCompilable("the dual's objective is not -1/2 a'R M^-1 R'a minus one quadratic a sample.")
    if read.curvature < 0:
        raise NotCompilable("the dual has a positive coefficient of |a|^2.")
    return BoxQP(near, ridge, read)


def _read_metric(to_plane: Array, S: Array, R: Array) -> tuple[float, tuple[float, float]]:
    """Fit ``near S'S z + ridge z = R'a`` to the declared recovery z(a), exactly or not at all."""
    n = to_plane.shape[1]
    columns, right = [], []
    for a in np.eye(n):
        z = to_plane @ a
        weights, intercept = np.append(z[:-1], 0.0), np.zeros_like(z)
        intercept[-1] = z[-1]
        columns.append(np.column_stack([S.T @ (S @ z), weights, intercept]))
        right.append(R.T @ a)
    left, wanted = np.vstack(columns), np.concatenate(right)
    fit = np.linalg.lstsq(left, wanted, rcond=None)[0]
    reason = "the declared plane is not (near S'S + ridge)^-1 R'a"
    _agree(left @ fit, wanted, reason, 1e-8)
    unit = float(np.abs(S.T @ S).max())
    near = _round(float(fit[0]))
    on_w, on_b = (_round(float(x)) if abs(x) > 1e-12 * near * unit else 0.0 for x in fit[1:])
    if near <= 0 or on_w < 0 or on_b < 0:
        raise NotCompilable(f"{reason}: it needs near = {near:g}, ridge = {on_w:g} and {on_b:g}.")
    return near, (on_w, on_b)


def _read_lp(dual: Program, S: Array, R: Array, rng: np.random.Generator) -> BoxLP:
    at = _Point(dual)
    blocks = [slice(int(end - v.size), int(end)) for v, end in zip(at.variables, at.ends, strict=True)]
    balance = dual.constraints[str(dual.plane)]
    if not isinstance(balance, cp.constraints.zero.Equality):
        raise NotCompilable(f"[{dual.plane}] is not an equation.")
    zero = np.zeros(at.size)
    base = at.violation(balance, zero)
    _agree(base, np.zeros_like(base), f"[{dual.plane}] has a constant term")
    columns = np.column_stack([at.violation(balance, unit) for unit in np.eye(at.size)])
    value0 = at.objective(zero)
    gradient = np.array([at.objective(unit) - value0 for unit in np.eye(at.size)])
    probe = rng.normal(size=at.size)
    _agree(np.array([at.objective(probe)]), np.array([value0 + gradient @ probe]), "the objective is not linear")
    if abs(value0) > 1e-12:
        raise NotCompilable("the objective has a constant term.")
    boxes = _read_box(at, [c for c in dual.constraints.values() if c is not balance], blocks)
    found = []
    for variable, part, (lower, upper) in zip(at.variables, blocks, boxes, strict=True):
        if not (np.isfinite(lower) and np.isfinite(upper) and lower < 0 < upper):
            raise NotCompilable(f"the multiplier {variable.name()} has no finite box with zero inside.")
        linear = -gradient[part]
        if np.ptp(linear) > EXACT * max(np.abs(linear).max(), 1e-12):
            raise NotCompilable(f"the objective weighs the entries of {variable.name()} differently.")
        rows, scale = _match(columns[:, part].T, S, R, variable.name())
        found.append(Block(variable.name(), rows, scale, Coefficients(_round(linear[0]), 0.0, lower, upper)))
    # the plane is the multiplier of the equation; the sign convention of the prox loop is G'theta = 0 with
    # phi evaluated at +G z, and CVXPY's multiplier of lhs == rhs in a maximisation has the same sign as that z
    return BoxLP(tuple(found))


def _match(rows: Array, S: Array, R: Array, name: str) -> tuple[str, float]:
    for label, base in (("R", R), ("S", S), ("I", np.eye(S.shape[1]))):
        if rows.shape == base.shape:
            scale = float((rows * base).sum() / (base * base).sum())
            if np.abs(rows - scale * base).max() <= EXACT * np.abs(base).max() and scale != 0:
                return label, _round(scale)
    raise NotCompilable(f"the multiplier {name} does not enter the equation through R, S or the identity.")


def _read_box(at: _Point, constraints: list[cp.Constraint], blocks: list[slice]) -> list[tuple[float, float]]:
    """Return the interval of each block, read by walking all of its entries at once from a feasible point."""
    for constraint in constraints:
        if not isinstance(constraint, cp.constraints.nonpos.Inequality):
            raise NotCompilable("a constraint of the dual couples its multipliers or is not an inequality.")
    if all(constraint.expr.is_affine() for constraint in constraints):
        return _read_affine_box(at, constraints, blocks)
    centre = _feasible(at, constraints)
    read = []
    for block in blocks:
        low, high = (_walk(at, constraints, centre, block, sign) for sign in (-1.0, 1.0))
        unit = max((abs(x) for x in (low, high) if np.isfinite(x)), default=1.0)
        read.append((_round(low, unit), _round(high, unit)))
    _check_box(at, constraints, blocks, read)
    return read


def _read_affine_box(at: _Point, constraints: list[cp.Constraint], blocks: list[slice]) -> list[tuple[float, float]]:
    """Return the interval of each block from constraints that are affine: each bounds one multiplier."""
    low, high = np.full(at.size, -np.inf), np.full(at.size, np.inf)
    for constraint in constraints:
        base = at.violation(constraint, np.zeros(at.size))
        slopes = np.column_stack([_slope(at, constraint, base, unit) for unit in np.eye(at.size)])
        scale = np.abs(slopes).max(axis=1, initial=0.0)
        kept = np.abs(slopes) > 1e-12 * scale[:, None]
        if (kept.sum(axis=1) != 1).any():
            raise NotCompilable("the dual's domain is not a box: a constraint couples its multipliers, or holds none.")
        entry = kept.argmax(axis=1)
        slope = slopes[np.arange(len(base)), entry]
        for i, bound, up in zip(entry, -base / slope, slope > 0, strict=True):
            if up:
                high[i] = min(high[i], bound)
            else:
                low[i] = max(low[i], bound)
    if not (low < high).all():
        raise NotCompilable("the dual's domain has no interior.")
    found = []
    for block in blocks:
        if max(_spread(low[block]), _spread(high[block])) > EXACT:
            raise NotCompilable("the dual bounds its multipliers differently.")
        unit = max((abs(x) for x in (low[block][0], high[block][0]) if np.isfinite(x)), default=1.0)
        found.append((_round(float(low[block][0]), unit), _round(float(high[block][0]), unit)))
    return found


def _slope(at: _Point, constraint: cp.Constraint, base: Array, unit: Array) -> Array:
    """Return how an affine constraint changes with one multiplier, from steps as long as what they lead to."""
    found = at.violation(constraint, unit) - base
    moved = found != 0
    if not moved.any():
        return found
    length = float(np.abs(base[moved] / found[moved]).max())
    return (at.violation(constraint, length * unit) - base) / length if length > 0 else found


def _spread(bounds: Array) -> float:
    if not np.isfinite(bounds).all():
        return 0.0 if (bounds == bounds[0]).all() else np.inf
    return float(np.ptp(bounds) / max(np.abs(bounds).max(), 1e-300))


def _feasible(at: _Point, constraints: list[cp.Constraint]) -> Array:
    """Return a point well inside the constraints."""
    slack = cp.Variable()
    tightened = [c.args[0] + slack <= c.args[1] for c in constraints]
    problem = cp.Problem(
        cp.Maximize(slack - 1e-3 * sum(cp.sum_squares(v) for v in at.variables)), [*tightened, slack <= 1e3]
    )
    with contextlib.suppress(cp.SolverError):
        problem.solve(solver="CLARABEL")
    if slack.value is None or not float(slack.value) > 0:
        raise NotCompilable("the dual's domain has no interior.")
    # every entry of a block shares its box, so their mean is inside too
    return np.concatenate([np.full(v.size, float(np.mean(v.value))) for v in at.variables])


def _walk(at: _Point, constraints: list[cp.Constraint], centre: Array, block: slice, sign: float) -> float:
    """Return the bound reached from the centre in one direction, to the last bit the constraints resolve."""

    def outside(length: float) -> bool:
        theta = centre.copy()
        theta[block] += sign * length
        return any((at.violation(c, theta) > 0).any() for c in constraints)

    length = 1.0
    while not outside(length):
        length *= 2
        if length > 1e15:
            return sign * np.inf
    low, high = 0.0, length
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if outside(middle) else (middle, high)
    return float(centre[block][0]) + sign * low


def _check_box(
    at: _Point, constraints: list[cp.Constraint], blocks: list[slice], boxes: list[tuple[float, float]]
) -> None:
    """Check that the constraints are those boxes, entry by entry: corners inside, one entry outside."""
    rng = np.random.default_rng(0)
    low, high = np.zeros(at.size), np.zeros(at.size)
    for block, (lower, upper) in zip(blocks, boxes, strict=True):
        low[block], high[block] = lower, upper
    width = np.where(
        np.isfinite(high - low),
        high - low,
        2.0 * np.maximum(1.0, np.abs(np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0)))),
    )
    left = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - width, -width / 2))
    right = left + width
    reason = "the dual's domain is not a box"
    margin = 1e-7 * width
    for _ in range(20):
        corner = np.where(rng.random(at.size) < 0.5, left + margin, right - margin)
        if any((at.violation(c, corner) > 0).any() for c in constraints):
            raise NotCompilable(reason)
        entry = int(rng.integers(at.size))
        for bound, sign in ((high[entry], 1.0), (low[entry], -1.0)):
            if np.isfinite(bound):
                beyond = corner.copy()
                beyond[entry] = bound + sign * margin[entry]
                if not any((at.violation(c, beyond) > 0).any() for c in constraints):
                    raise NotCompilable(reason)


def _interior(lower: float, upper: float) -> float:
    if np.isfinite(lower) and np.isfinite(upper):
        return (lower + upper) / 2
    if np.isfinite(lower):
        return lower + 1.0
    return upper - 1.0 if np.isfinite(upper) else 0.0


def _agree(found: Array, expected: Array, reason: str, tolerance: float = EXACT) -> None:
    scale = max(np.abs(expected).max(initial=0.0), np.abs(found).max(initial=0.0), 1e-12)
    if not np.isfinite(found).all() or np.abs(found - expected).max(initial=0.0) > tolerance * scale:
        raise NotCompilable(f"{reason}.")


def _round(value: float, scale: float | None = None) -> float:
    """Drop what is only the rounding noise of a reading: a value that is nothing beside its scale is zero."""
    unit = abs(value) if scale is None else max(abs(value), scale)
    if not np.isfinite(value):
        return value
    if abs(value) <= 1e-12 * unit:
        return 0.0
    return float(value)
