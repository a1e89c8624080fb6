"""One plane's problem under verification: a formulation with its S and R, each solve done once.

Knows formulations, solvers and the readings the checks share; draws no conclusions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from .compile import compile
from .conic import standard_form
from .errors import FormulationError
from .forms import BoxQP, Compiled
from .lagrangian import DualDomain, Lagrangian
from .linalg import Array
from .modeling import Formulation, Program
from .reading import NotCompilable
from .solvers import ProgramSolution, solve_program, value_with_plane_fixed
from .sor import SORResult
from .working_set import factor_of

ACCURATE = 1e-6
"""Largest relative residual at which a general solver's answer is taken as evidence about a formulation."""


@dataclass
class Instance:
    """A formulation, its matrices, and everything computed from them so far.

    Attributes
    ----------
    formulation : Formulation
    S, R : arrays
    label : str
        Which class this is the plane of.
    solvers : tuple of str
    options : mapping
        Neutral solver options.
    seed : int
    """

    formulation: Formulation
    S: Array
    R: Array
    label: str
    solvers: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    @cached_property
    def primal(self) -> Program:
        """The declared primal."""
        program = self.formulation.program("primal", self.S, self.R)
        assert program is not None
        return program

    @cached_property
    def dual(self) -> Program | None:
        """The declared dual."""
        return self.formulation.program("dual", self.S, self.R, beside=self.primal)

    @cached_property
    def primal_solutions(self) -> dict[str, ProgramSolution]:
        """Each solver's answer to the primal."""
        return {name: solve_program(self.primal, name, self.options) for name in self.solvers}

    @cached_property
    def dual_solutions(self) -> dict[str, ProgramSolution]:
        """Each solver's answer to the dual; empty where none is declared.

        Where SOR's optimum of this same dual is proved, each is also judged by its distance from it: a point outside
        its domain by 1e-8 has small residuals, and where the curvature is 1e10 another value.
        """
        if self.dual is None:
            return {}
        found = {name: solve_program(self.dual, name, self.options) for name in self.solvers}
        if isinstance(self.compiled, NotCompilable) or self.sor is None or not self.proved <= ACCURATE:
            return found
        known = self.compiled.primal_value(self.S, self.R, self.sor[1])
        return {
            name: replace(s, doubt=max(abs(s.value - known) / max(abs(s.value), abs(known), 1e-300) - self.proved, 0.0))
            if np.isfinite(s.value)
            else s
            for name, s in found.items()
        }

    def best_primal(self, other_than: str | None = None) -> ProgramSolution | None:
        """The primal's most accurate solution, from another solver where one is as good as accurate."""
        return _best(self.primal_solutions, other_than)

    def best_dual(self, other_than: str | None = None) -> ProgramSolution | None:
        """The dual's most accurate solution, likewise."""
        return _best(self.dual_solutions, other_than)

    @cached_property
    def conic_dual_value(self) -> float:
        """The optimal value of the dual that CVXPY's standard form of the primal implies."""
        problem = standard_form(self.primal.problem).dual_problem()
        program = Program(problem.objective, _named(problem.constraints), "none")
        for name in ("clarabel", "ecos", "scs"):
            solution = solve_program(program, name)
            if solution.error <= ACCURATE:
                return solution.value
        return float("nan")

    @cached_property
    def lagrangian(self) -> Lagrangian:
        """The primal's Lagrangian over the constraints the dual gives multipliers for."""
        assert self.dual is not None
        return Lagrangian(self.primal, list(self.dual.multipliers))

    @cached_property
    def domain(self) -> DualDomain:
        """The dual's declared domain."""
        assert self.dual is not None
        return DualDomain(self.dual)

    @cached_property
    def points(self) -> tuple[Array, list[Array]]:
        """A centre and random points of the dual's domain, at several scales of the multipliers."""
        values = [abs(float(v)) for v in self.formulation.get_params(deep=True).values() if isinstance(v, int | float)]
        solved = self.best_dual()
        size = max([float(np.abs(m).max(initial=0.0)) for m in solved.multipliers.values()] if solved else [1.0])
        top = max([v for v in values if v < 1e9], default=1.0)
        scales = [0.3 * size, size, 3 * size, 0.5 * top, 2 * top, 1.0]
        return self.domain.inside([s for s in scales if s > 0], np.random.default_rng(self.seed))

    @cached_property
    def _by_sor(self) -> tuple[Compiled | NotCompilable, tuple[SORResult, Array] | None]:
        try:
            compiled = compile(self.formulation)
            found = compiled.solve(self.S, self.R, tol=1e-10, time_limit=30.0, random_state=self.seed)
        except NotCompilable as reason:
            return reason, None
        except FormulationError as error:  # a proximal map that breaks: its own check says so too
            return NotCompilable(str(error)), None
        return compiled, found

    @property
    def compiled(self) -> Compiled | NotCompilable:
        """SOR's arrays, or why there are none."""
        return self._by_sor[0]

    @property
    def sor(self) -> tuple[SORResult, Array] | None:
        """SOR's result and plane."""
        return self._by_sor[1]

    @cached_property
    def proved(self) -> float:
        """The relative gap proved of SOR's plane; infinite where a proof does not apply."""
        if self.sor is None or isinstance(self.compiled, NotCompilable):
            return float("inf")
        result, plane = self.sor
        proof = self.compiled.proof(self.S, self.R, plane, result.a)
        return proof.check().relative_gap if proof is not None else float("inf")

    @property
    def sor_gap(self) -> float:
        """The relative gap of SOR's plane: proved, or as computed where no proof applies."""
        if self.sor is None:
            return float("inf")
        return self.proved if np.isfinite(self.proved) else self.sor[0].relative_gap

    def values(self, plane: Array) -> Array:
        """The plane's values on the data: S z and R z."""
        return np.concatenate([self.S @ plane, self.R @ plane])

    def distance(self, one: Array, two: Array) -> float:
        """How far two planes' values on the data are apart, relative to the larger."""
        first, second = self.values(one), self.values(two)
        return float(np.abs(first - second).max() / max(np.abs(first).max(), np.abs(second).max(), 1e-300))

    def supported(self, *relative_errors: float) -> float:
        """The distance that two planes of these relative gaps may be apart: ``|f_i| sum sqrt(2 gap)``.

        By strong convexity in the metric M; infinite where the metric is not known.
        """
        best = self.best_primal()
        if isinstance(self.compiled, BoxQP) and best is not None and best.plane is not None:
            rows = factor_of(self.compiled.problem(self.S, self.R)).whiten(np.vstack([self.S, self.R]))
            reach = float(np.sqrt(np.einsum("ij,ij->i", rows, rows).max()))
            size = max(float(np.abs(self.values(best.plane)).max()), 1e-300)
            return reach * sum(np.sqrt(2 * e * abs(best.value)) for e in relative_errors) / size
        return float("inf")

    def value_at(self, plane: Array) -> float:
        """The declared primal's value with its plane held there."""
        return value_with_plane_fixed(self.primal, plane)


def _best(solutions: Mapping[str, ProgramSolution], other_than: str | None) -> ProgramSolution | None:
    accurate = [s for s in solutions.values() if s.error <= ACCURATE and s.plane is not None]
    others = [s for s in accurate if s.solver != other_than]
    return min(others or accurate, key=lambda s: s.error, default=None)


def _named(constraints: list[Any]) -> dict[str, Any]:
    return {f"c{i}": c for i, c in enumerate(constraints)} | {"none": constraints[-1]}
