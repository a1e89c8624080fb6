"""A declared primal and dual on a few random rows, measured: what the dual says, and what the Lagrangian makes of it.

Small enough that every number of a dual can be read off: the coefficients of its objective, the interval of each
multiplier, the equations that tie them, the recovery of the plane; each as declared, and as the Lagrangian has it.
Knows programs; must not know formulations, nor how what it measures is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import cvxpy as cp
import numpy as np

from .lagrangian import DualDomain, Lagrangian
from .linalg import Array
from .modeling import Formulation, Program

Multipliers = Mapping[str, Array]
Change = Callable[[Multipliers], Multipliers]
_EXACT = 1e-6  # relative error up to which a fit to measured values is taken for exact
_HALVED = 1e-6  # relative width to which an end of an interval is halved down
_SCAN = (1e-6, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.45, 0.7, 0.9, 1.2, 1.6, 2.3, 3.1, 5.0, 10.0, 100.0, 1e4, 1e7)


@dataclass(frozen=True)
class Interval:
    """Where one block of multipliers may lie, and what forbids the values below and above."""

    lower: float
    upper: float
    below: str = ""
    above: str = ""


@dataclass(frozen=True)
class Objective:
    """``constant n + linear e'a + square |a|^2 - 1/2 a' R W R' a``: a dual objective of one multiplier a margin row."""

    constant: float
    linear: float
    square: float
    inverse: Array


@dataclass(frozen=True)
class Metric:
    """``near S'S + margin R'R + ridge on w, and on b``."""

    near: float
    margin: float
    on_w: float
    on_b: float


class Probe:
    """A formulation's two problems on a few random rows."""

    def __init__(self, formulation: Formulation, near: int = 4, margin: int = 5, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.S = np.column_stack([rng.normal(size=(near, 2)), np.ones(near)])
        self.R = np.column_stack([rng.normal(size=(margin, 2)), np.ones(margin)])
        primal = formulation.program("primal", self.S, self.R)
        dual = formulation.program("dual", self.S, self.R, beside=primal)
        assert primal is not None
        assert dual is not None
        self.primal, self.dual = primal, dual
        self.names = list(dual.multipliers)
        self.domain = DualDomain(dual)
        self._intervals: dict[str, Interval | None] = {}
        ends = np.concatenate([[0], self.domain.ends])
        self.blocks = {
            v.name(): slice(int(a), int(b)) for v, a, b in zip(self.domain.variables, ends[:-1], ends[1:], strict=True)
        }

    @property
    def one_block(self) -> bool:
        """Whether the dual has one multiplier a margin row and no other, and recovers the plane by a formula."""
        return self.domain.size == len(self.R) and len(self.blocks) == 1 and not isinstance(self.dual.plane, str)

    @cached_property
    def lagrangian(self) -> Lagrangian:
        """The Lagrangian over the constraints that the dual gives multipliers for."""
        return Lagrangian(self.primal, self.names)

    # --- values --------------------------------------------------------------------------------------------

    @cached_property
    def points(self) -> list[Array]:
        """Multipliers inside the declared domain, more than any quadratic on it has coefficients."""
        n = self.domain.size
        rng = np.random.default_rng(1)
        centre, reached = self.domain.inside([1.0, 0.3, 3.0, 1.0, 1.0, 0.5, 2.0, 1.0][: n + 3], rng)
        if not reached:
            return []
        count = (n + 1) * (n + 2) // 2 + 4 if n <= 6 else 24
        corners = np.array(reached)
        shares = rng.dirichlet(np.full(len(corners), 0.7), size=count) * rng.uniform(0.2, 1.0, size=(count, 1))
        return list(centre + shares @ (corners - centre))

    def infimum(self, theta: Array, change: Change | None = None) -> float:
        """Return the infimum of the Lagrangian at declared multipliers, or at what ``change`` makes of them."""
        multipliers = self.domain.multipliers(theta)
        return float(self.lagrangian.infimum(multipliers if change is None else change(multipliers)).value)

    def agrees(self, change: Change | None = None) -> bool:
        """Whether the declared objective is that infimum, and the declared plane its minimiser, at several points."""
        if not self.points:
            return False
        for theta in self.points[:6]:
            declared, true = self.domain.objective(theta), self.infimum(theta, change)
            if not abs(declared - true) <= _EXACT * max(abs(declared), abs(true), 1e-9):
                return False
            if self.one_block and self.lagrangian.minimum.linear:
                one, two = self.dual.plane_value(), self.primal.plane_value()
                if np.abs(one - two).max() > 1e-5 * max(np.abs(one).max(), np.abs(two).max(), 1e-9):
                    return False
        return True

    # --- the objective and the recovery --------------------------------------------------------------------

    def objectives(self) -> tuple[Objective, Objective] | None:
        """Return the declared objective and the true one; None where one is not such a quadratic."""
        if not self.one_block or len(self.points) < 21:
            return None
        declared = self._objective(np.array([self.domain.objective(a) for a in self.points]))
        true = self._objective(np.array([self.infimum(a) for a in self.points]))
        return None if declared is None or true is None else (declared, true)

    def _objective(self, values: Array) -> Objective | None:
        n, points = len(self.R), np.array(self.points)
        if not np.isfinite(values).all():
            return None
        rows, columns = np.triu_indices(n)
        grid = np.column_stack([np.ones(len(points)), points, points[:, rows] * points[:, columns]])
        fit = _exact_fit(grid, values)
        if fit is None:
            return None
        hessian = np.zeros((n, n))
        hessian[rows, columns] = fit[n + 1 :]
        hessian = hessian + hessian.T
        size = max(np.abs(values).max(), 1e-12)
        # multipliers that move no plane see the separable part alone
        still = np.linalg.svd(self.R.T)[2][self.R.shape[1] :].T
        alone = still.T @ hessian @ still
        square = float(np.mean(np.diag(alone)))
        if np.abs(alone - square * np.eye(len(alone))).max() > 1e-5 * max(np.abs(hessian).max(), size):
            return None
        inverse = np.linalg.pinv(self.R)
        W = -inverse @ (hessian - square * np.eye(n)) @ inverse.T
        linear = float(np.mean(fit[1 : n + 1]))
        if np.abs(fit[1 : n + 1] - linear).max() > 1e-5 * size:
            return None
        constant = _clean(float(fit[0]) / n, size)
        return Objective(constant, _clean(linear, size), _clean(square / 2, size), np.asarray(W))

    def recoveries(self) -> tuple[Array, Array] | None:
        """Return W of the declared plane ``W R'a`` and of the Lagrangian's minimiser; None where one is not such."""
        if not self.one_block or not self.points:
            return None
        declared, true = [], []
        for a in self.points:
            if not np.isfinite(self.infimum(a)):
                return None
            true.append(self.primal.plane_value())
            self.domain.put(a)
            declared.append(self.dual.plane_value())
        found = []
        for planes in (declared, true):
            fit = _exact_fit(np.array(self.points) @ self.R, np.array(planes))
            if fit is None:
                return None
            found.append(fit.T)
        return found[0], found[1]

    def metric(self, W: Array) -> Metric | None:
        """Return the numbers of ``W^-1``; None where it is not made of S'S, R'R and a ridge."""
        if np.linalg.cond(W) > 1e10:
            return None
        wanted = np.linalg.inv(W)
        on_w = np.diag([*np.ones(len(W) - 1), 0.0])
        parts = [self.S.T @ self.S, self.R.T @ self.R, on_w, np.eye(len(W)) - on_w]
        fit = _exact_fit(np.column_stack([part.ravel() for part in parts]), np.asarray(wanted, dtype=float).ravel())
        if fit is None:
            return None
        size = float(np.abs(fit).max())
        return Metric(*(_clean(float(x), size) for x in fit))

    # --- the domain ----------------------------------------------------------------------------------------

    @cached_property
    def held(self) -> Lagrangian:
        """The Lagrangian with the plane held at zero: what it takes to be bounded is then each sample's own."""
        assert not isinstance(self.primal.plane, str)
        constraints = {**self.primal.constraints, "held": self.primal.plane == 0}
        return Lagrangian(Program(self.primal.objective, constraints, self.primal.plane), self.names)

    def true_interval(self, block: str, change: Change | None = None, *, signs: bool = True) -> Interval | None:
        """Return where a block's multipliers have their signs and the Lagrangian is bounded; None for a point.

        ``change`` is made to the declared multipliers first; without ``signs`` it leaves what sign they must have.
        """

        def forbids(x: float) -> str:
            declared = self.domain.multipliers(self._at(block, x))
            changed = declared if change is None else change(declared)
            size = max(float(np.abs(m).max(initial=0.0)) for m in declared.values())
            name, worst = self.held.most_negative(changed if signs else declared)
            if worst < -1e-12 * size:
                return f"[{name}]"
            found = self.held.infimum(changed)
            return "" if np.isfinite(found.value) else f"along {found.along}" if found.along else "unbounded"

        if change is not None:
            return _interval(forbids)
        if block not in self._intervals:
            self._intervals[block] = _interval(forbids)
        return self._intervals[block]

    def declared_interval(self, block: str) -> Interval | None:
        """Return where the declared inequalities let a block's multipliers lie; None for a point or nothing."""

        def forbids(x: float) -> str:
            broken = self.domain.violations(self._at(block, x))
            names = [name for name in self.domain.inequalities if broken[name] > 1e-12 * max(1.0, abs(x))]
            return f"[{names[0]}]" if names else ""

        return _interval(forbids)

    def _at(self, block: str, x: float) -> Array:
        theta = np.zeros(self.domain.size)
        theta[self.blocks[block]] = x
        return theta

    # --- stationarity --------------------------------------------------------------------------------------

    def balance(self, variable: cp.Variable) -> tuple[float, dict[str, float]] | None:
        """Return (c, s) of the coefficient ``c + sum_k s_k [k]`` of a variable that the Lagrangian is linear in.

        It must be alike for all samples: None where multipliers enter through a matrix, or the variable otherwise.
        """
        base = self.lagrangian.slope(variable, {n: np.zeros(p.shape) for n, p in self.lagrangian.parameters.items()})
        if base is None or np.ptp(base) > 1e-9 * max(np.abs(base).max(), 1.0):
            return None
        factors = {}
        for name in self.names:
            shape = self.lagrangian.parameters[name].shape
            moved = {n: np.zeros(p.shape) for n, p in self.lagrangian.parameters.items()} | {name: np.ones(shape)}
            slope = self.lagrangian.slope(variable, moved)
            assert slope is not None
            change = slope - base
            if np.ptp(change) > 1e-9 * max(np.abs(change).max(), 1.0):
                return None
            if abs(change[0]) > 1e-12:
                factors[name] = float(change[0])
        return float(base[0]), factors

    def declared_multiplier(self, name: str) -> tuple[float, float] | None:
        """Return (c, s) of a declared multiplier ``c + s a``, for a dual of one block."""
        if not self.one_block or self.dual.multipliers[name].shape != (len(self.R),):
            return None
        zero, one = (self.domain.multipliers(np.full(self.domain.size, x))[name] for x in (0.0, 1.0))
        if np.ptp(zero) > 1e-9 or np.ptp(one - zero) > 1e-9:
            return None
        return float(zero[0]), float(one[0] - zero[0])

    def equations(self) -> dict[str, tuple[float, float]] | None:
        """Return, block by block, the factor of a declared equation and that of the plane's stationarity.

        None where the plane is no variable that the Lagrangian is linear in, or the dual has no such equation.
        """
        if not isinstance(self.primal.plane, cp.Variable) or self.domain.equation is None:
            return None
        plane = self.primal.plane
        zero = self.lagrangian.slope(plane, self.domain.multipliers(np.zeros(self.domain.size)))
        matrix, _ = self.domain.equation
        if zero is None or len(matrix) != self.R.shape[1]:
            return None
        slopes = [self.lagrangian.slope(plane, self.domain.multipliers(unit)) for unit in np.eye(self.domain.size)]
        true = np.column_stack([s - zero for s in slopes if s is not None])
        found = {}
        for name, part in self.blocks.items():
            size = float((true[:, part] ** 2).sum())
            if size == 0:
                return None
            factor = float((matrix[:, part] * true[:, part]).sum()) / size
            if np.abs(matrix[:, part] - factor * true[:, part]).max() > 1e-9 * max(np.abs(true[:, part]).max(), 1.0):
                return None
            found[name] = (factor, 1.0)
        return found


def _interval(forbids: Callable[[float], str]) -> Interval | None:
    """Return the ends of the interval on which nothing is forbidden, found by a scan and halving."""
    grid = [*(-x for x in reversed(_SCAN)), 0.0, *_SCAN]
    reasons = [forbids(x) for x in grid]
    good = [i for i, reason in enumerate(reasons) if not reason]
    if not good or (len(good) == 1 and grid[good[0]] == 0.0):
        return None

    def end(inside: int, step: int) -> tuple[float, str]:
        if not 0 <= inside + step < len(grid):
            return step * np.inf, ""
        low, high, reason = grid[inside], grid[inside + step], reasons[inside + step]
        while abs(high - low) > _HALVED * max(abs(low), abs(high), 1e-3):
            middle = (low + high) / 2
            why = forbids(middle)
            low, high, reason = (middle, high, reason) if not why else (low, middle, why)
        return (0.0 if abs(high) < 1e-6 else (low + high) / 2), reason

    (lower, below), (upper, above) = end(good[0], -1), end(good[-1], 1)
    return Interval(lower, upper, below, above)


def _exact_fit(grid: Array, target: Array) -> Array | None:
    """Return the least squares fit if it is one of all digits the values have."""
    scale = np.maximum(np.abs(grid).max(axis=0), 1e-300)
    fit, *_ = np.linalg.lstsq(grid / scale, target, rcond=None)
    if not np.isfinite(fit).all() or np.abs(grid / scale @ fit - target).max() > _EXACT * max(
        np.abs(target).max(), 1e-9
    ):
        return None
    return np.asarray((fit.T / scale).T)


def _clean(x: float, size: float) -> float:
    return 0.0 if abs(x) <= 1e-7 * size else float(x)
