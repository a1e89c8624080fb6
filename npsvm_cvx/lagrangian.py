"""The dual function of a declared primal, and points inside and outside a declared dual's domain.

This is the definition of a dual, so it checks the derivation itself: at *any* multipliers, not only the best, the
declared dual objective must be the infimum of the Lagrangian, and outside the declared domain that infimum must be
minus infinity.  Knows programs; must not know formulations.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import cvxpy as cp
import numpy as np
import scipy.linalg

from .conic import Infimum, ParametricMinimum, linear_system
from .linalg import Array
from .modeling import Program


class Lagrangian:
    """``L(x; m) = f(x) + sum_k m_k'(lhs_k - rhs_k)`` of a minimisation, over the named constraints.

    Constraints not named stay constraints of the minimisation over x.
    """

    def __init__(self, primal: Program, names: list[str]) -> None:
        self.primal = primal
        self.inequalities = [n for n in names if isinstance(primal.constraints[n], cp.constraints.nonpos.Inequality)]
        self.parameters = {name: cp.Parameter(primal.constraints[name].shape) for name in names}
        value = primal.objective.expr
        for name, parameter in self.parameters.items():
            value = value + cp.sum(cp.multiply(parameter, primal.constraints[name].expr))
        for variable in primal.problem.variables():
            variable.value = np.zeros(variable.shape)
        self.constants = {name: np.abs(np.asarray(primal.constraints[name].expr.value, dtype=float)) for name in names}
        rest = [c for name, c in primal.constraints.items() if name not in names]
        self.minimum = ParametricMinimum(cp.Problem(cp.Minimize(value), rest))

    def infimum(self, multipliers: Mapping[str, Array]) -> Infimum:
        """Return the infimum over x; the minimiser is left in the primal's variables where it is attained."""
        size = summed = 0.0
        for name, parameter in self.parameters.items():
            parameter.value = np.asarray(multipliers[name], dtype=float).reshape(parameter.shape)
            size = max(size, float(np.abs(parameter.value).max(initial=0.0)))
            summed += float(np.sum(np.abs(parameter.value) * self.constants[name]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = self.minimum.minimise(size)
        return replace(found, scale=found.scale + summed)

    def slope(self, variable: cp.Variable, multipliers: Mapping[str, Array]) -> Array | None:
        """Return the coefficients of a variable that the Lagrangian is linear in; None where it is not."""
        for name, parameter in self.parameters.items():
            parameter.value = np.asarray(multipliers[name], dtype=float).reshape(parameter.shape)
        return self.minimum.slope(variable)

    def reach(self) -> float:
        """Return the largest entry of the last minimiser."""
        values = [variable.value for variable in self.primal.problem.variables()]
        return max((float(np.abs(value).max(initial=0.0)) for value in values if value is not None), default=0.0)

    def most_negative(self, multipliers: Mapping[str, Array]) -> tuple[str, float]:
        """Return the inequality whose multiplier is most negative, and that value (0 where none is)."""
        worst = min(
            ((name, float(np.min(multipliers[name], initial=0.0))) for name in self.inequalities),
            key=lambda pair: pair[1],
            default=("", 0.0),
        )
        return worst


@dataclass(frozen=True)
class OutsidePoint:
    """Multipliers that break one named constraint of the dual and no other."""

    constraint: str
    theta: Array


class DualDomain:
    """The set of multipliers a dual declares feasible, as a source of points."""

    def __init__(self, dual: Program) -> None:
        self.dual = dual
        self.variables = dual.variables
        self.ends = np.cumsum([v.size for v in self.variables])
        self.size = int(self.ends[-1])
        self.goal = cp.Parameter(self.size)
        stacked = cp.hstack([cp.vec(v, order="F") for v in self.variables])
        self.projection = cp.Problem(cp.Minimize(cp.sum_squares(stacked - self.goal)), list(dual.constraints.values()))
        equalities = [c for c in dual.constraints.values() if isinstance(c, cp.constraints.zero.Equality)]
        self.basis: Array | None = None
        self.equation: tuple[Array, Array] | None = None
        if equalities:
            matrix, right = linear_system(equalities, self.variables)
            self.equation = matrix, right
            self.basis = scipy.linalg.null_space(matrix)

    def put(self, theta: Array) -> None:
        """Give the dual's variables these values."""
        for variable, part in zip(self.variables, np.split(theta, self.ends[:-1]), strict=True):
            variable.save_value(part.reshape(variable.shape, order="F"))  # no attribute to validate against

    def multipliers(self, theta: Array) -> dict[str, Array]:
        """Return the declared multipliers of the primal's constraints at these values."""
        self.put(theta)
        return {name: np.asarray(e.value, dtype=float) for name, e in self.dual.multipliers.items()}

    def objective(self, theta: Array) -> float:
        """Return the declared dual objective."""
        self.put(theta)
        value = self.dual.objective.value
        return float("nan") if value is None else float(np.real(value))

    def violations(self, theta: Array) -> dict[str, float]:
        """Return, for each named constraint, by how much it is broken (0 where it holds)."""
        self.put(theta)
        return {name: float(np.max(c.violation(), initial=0.0)) for name, c in self.dual.constraints.items()}

    def inside(self, scales: list[float], rng: np.random.Generator) -> tuple[Array, list[Array]]:
        """Return a centre and points of the relative interior, out to each scale and nearly to the boundary."""
        reached = [self._project(scale * rng.normal(size=self.size)) for scale in scales]
        found = [theta for theta in reached if theta is not None]
        if not found:
            return np.zeros(self.size), []
        centre = self._centre()
        if centre is None:
            centre = self._on_equations(np.mean(found, axis=0))
        return centre, [self._drawn_in(centre, self._on_equations(theta)) for theta in found]

    def _drawn_in(self, centre: Array, theta: Array) -> Array:
        """Step back from a projection, which lies on the boundary only to a solver's tolerance, towards the centre."""
        step, names = theta - centre, self.inequalities

        def inside(share: float) -> bool:
            broken = self.violations(centre + share * step)
            return all(broken[name] <= 0 for name in names)

        low, high = 0.0, 1.0
        if not inside(high):
            for _ in range(30):
                middle = (low + high) / 2
                low, high = (middle, high) if inside(middle) else (low, middle)
            high = low
        return self._on_equations(centre + 0.999 * high * step)

    @property
    def inequalities(self) -> list[str]:
        """The names of the constraints that are inequalities."""
        return [n for n, c in self.dual.constraints.items() if isinstance(c, cp.constraints.nonpos.Inequality)]

    def _centre(self) -> Array | None:
        """Return the point deepest inside the inequalities, near the origin where they bound nothing."""
        depth = cp.Variable()
        constraints = [
            c.args[0] + depth <= c.args[1] if name in self.inequalities else c
            for name, c in self.dual.constraints.items()
        ]
        size = sum(cp.sum_squares(v) for v in self.variables)
        solution = self._solve(cp.Problem(cp.Maximize(depth - 1e-6 * size), [*constraints, depth <= 1.0]))
        if solution is None or depth.value is None or not float(depth.value) > 0:
            return None
        return self._on_equations(solution)

    def outside(self, centre: Array, rng: np.random.Generator, tries: int = 24) -> Iterator[OutsidePoint]:
        """Yield, for as many named constraints as are met, one point that breaks it alone."""
        wanted = set(self.inequalities)
        for direction in self._directions(centre, rng, tries, wanted):
            met = self._first_met(centre, direction)
            if met is not None and met.constraint in wanted:
                wanted.discard(met.constraint)
                yield met

    def _directions(self, centre: Array, rng: np.random.Generator, tries: int, wanted: set[str]) -> Iterator[Array]:
        """Yield single entries to move along, then ways out through each constraint still wanted."""
        for _ in range(tries):
            if not wanted:
                return
            direction = np.zeros(self.size)
            direction[rng.integers(self.size)] = rng.choice([-1.0, 1.0])
            yield direction if self.basis is None else self.basis @ (self.basis.T @ direction)
        for name in sorted(wanted):
            for _ in range(4):
                if name in wanted and (point := self._way_out(name, rng)) is not None:
                    yield point - centre

    def _way_out(self, name: str, rng: np.random.Generator) -> Array | None:
        """Return the point furthest along one entry that satisfies every constraint but this one."""
        variables = self.dual.constraints[name].variables()
        variable = variables[int(rng.integers(len(variables)))]
        size = 1e4 * max(1.0, float(np.abs(self.goal.value).max(initial=0.0)))
        others = [c for other, c in self.dual.constraints.items() if other != name]
        entry = cp.vec(variable, order="F")[int(rng.integers(variable.size))] * float(rng.choice([-1.0, 1.0]))
        bounded = [cp.abs(v) <= size for v in self.variables]
        return self._solve(cp.Problem(cp.Maximize(entry), [*others, *bounded]))

    def _first_met(self, centre: Array, direction: Array) -> OutsidePoint | None:
        """Walk until one constraint breaks alone, and a little beyond."""
        if not np.abs(direction).max() > 1e-9:
            return None

        def broken(length: float) -> set[str]:
            violations = self.violations(centre + length * direction)
            return {name for name in self.inequalities if violations[name] > 1e-9 * (1 + length)}

        high = 1e-4
        while not broken(high):
            high *= 4
            if high > 1e10:
                return None
        low = 0.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if broken(middle) else (middle, high)
        first = broken(high)
        if len(first) != 1:
            return None
        step = high
        # only a little: a domain declared too narrow has its true bound further out
        for share in (0.05, 0.01, 0.002):
            if broken(high * (1 + share)) == first:
                step = high * (1 + share)
                break
        return OutsidePoint(next(iter(first)), centre + step * direction) if step > high else None

    def _project(self, point: Array) -> Array | None:
        self.goal.value = point
        return self._solve(self.projection)

    def _solve(self, problem: cp.Problem) -> Array | None:
        for solver in ("CLARABEL", "SCS"):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    problem.solve(solver=solver)
            except (cp.SolverError, ValueError):
                continue
            if all(v.value is not None for v in self.variables):
                return np.concatenate([np.asarray(v.value).ravel(order="F") for v in self.variables])
        return None

    def _on_equations(self, theta: Array) -> Array:
        if self.equation is None:
            return theta
        matrix, right = self.equation
        return theta - np.linalg.lstsq(matrix, matrix @ theta - right, rcond=None)[0]
