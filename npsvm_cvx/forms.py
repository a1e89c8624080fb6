"""The shapes of dual that the fast solver takes: their numbers, solved and proved for any S and R.

Arrays in, solutions out.  Knows the solvers; must not know how numbers are read off a declaration, nor any formulation
by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from .certificate import Proof
from .derivation import evaluate
from .errors import FormulationError
from .framework import Framework
from .linalg import Array, Factor
from .problem import Problem, Stack, is_sparse, joined
from .proximal import proximal_point
from .sor import SORResult
from .steps import coordinate_steps
from .terms import Terms
from .working_set import minimise


@dataclass(frozen=True)
class Coefficients:
    """``h(a) = linear a + 1/2 curvature a^2 + constant`` on ``[lower, upper]``, the same for every sample."""

    linear: float
    curvature: float
    lower: float
    upper: float
    constant: float = 0.0

    def terms(self, n: int, weights: float | Array = 1.0) -> Terms:
        """Return the terms of n samples, whose losses are ``weights`` times this one's: their h is ``s h(a / s)``."""
        s = np.broadcast_to(np.asarray(weights, dtype=float), (n,))
        return Terms.of(n, self.linear, self.curvature / s, s * self.lower, s * self.upper, self.constant * s.sum())

    def __str__(self) -> str:
        return (
            f"h(a) = {self.linear:g} a + {self.curvature / 2:g} a^2 + {self.constant:g} "
            f"on [{self.lower:g}, {self.upper:g}]"
        )


@dataclass(frozen=True)
class BoxQP:
    """The first shape: ``near`` multiplies S'S, ``ridge`` is (on w, on b)."""

    near: float
    ridge: tuple[float, float]
    samples: Coefficients

    shape = "box and separable quadratic: SOR on whitened rows"

    def problem(
        self,
        S: Array | Stack,
        R: Array | Stack,
        *,
        near: Array | None = None,
        margin: float | Array = 1.0,
        columns: Array | None = None,
    ) -> Problem:
        """Return the arrays of one plane's problem.

        Parameters
        ----------
        S, R : (m, d) and (l, d) arrays, or Stack
        near : (m,) array, optional
        margin : float or (l,) array
            Weights of the samples.
        columns : (d,) array, optional
            What each coefficient's ridge is divided by.
        """
        S, R = Stack.of(S), Stack.of(R)
        ridge = self.ridges(S.shape[1])
        return Problem(
            S,
            R,
            self.samples.terms(len(R), margin),
            ridge if columns is None else ridge / columns,
            self.near if near is None else self.near * near,
        )

    def ridges(self, d: int) -> Array:
        """Return the ridge of each of d coefficients, (d,)."""
        return np.append(np.full(d - 1, self.ridge[0]), self.ridge[1])

    def primal_value(self, S: Array, R: Array, z: Array) -> float:
        """Return the primal objective at the plane z, its slacks the best for it."""
        problem = self.problem(S, R)
        return problem.smooth(z) + float(problem.terms.phi(R @ z).sum()) - problem.terms.constant

    def solve(self, S: Array | Stack, R: Array | Stack, **options: Any) -> tuple[SORResult, Array]:
        """Return SOR's result and the plane."""
        return minimise(self.problem(S, R), **options)

    def proof(self, S: Array, R: Array, plane: Array, a: Array) -> Proof:
        """Return what a rigorous bound on the plane's gap follows from."""
        return Proof.of(self.problem(S, R), plane, a)

    def multipliers(self, result: SORResult) -> dict[str, Array]:
        """Return the dual variables by name."""
        return {"a": result.a}


@dataclass(frozen=True)
class Block:
    """One multiplier variable of a box linear program: its rows are ``scale`` times R, S or the identity."""

    name: str
    rows: str
    scale: float
    samples: Coefficients

    def matrix(self, S: Any, R: Any) -> Any:
        """Return the block's rows of G, sparse where S and R are."""
        d = S.shape[1]
        base = {"R": R, "S": S, "I": sparse.eye_array(d, format="csr") if is_sparse(S) else np.eye(d)}[self.rows]
        return base if self.scale == 1 else -base if self.scale == -1 else self.scale * base


@dataclass(frozen=True)
class BoxLP:
    """The second shape; ``sign`` turns the equation's multiplier into the plane."""

    blocks: tuple[Block, ...]

    shape = "box linear program: interior points, ended on a vertex"

    def assembled(
        self, S: Any, R: Any, *, near: float | Array = 1.0, margin: float | Array = 1.0
    ) -> tuple[Any, Terms, list[int]]:
        """Return G, its terms, and where each block ends; ``near`` and ``margin`` are the samples' weights."""
        weights = {"S": near, "R": margin, "I": 1.0}
        parts = [block.matrix(S, R) for block in self.blocks]
        each = [
            block.samples.terms(G.shape[0], weights[block.rows]) for block, G in zip(self.blocks, parts, strict=True)
        ]
        columns = [np.concatenate(column) for column in list(zip(*each, strict=True))[:4]]
        ends = list(np.cumsum([G.shape[0] for G in parts]))
        linear, curvature, lower, upper = columns
        return joined(parts), Terms(linear, curvature, lower, upper, sum(t.constant for t in each)), ends

    def primal_value(self, S: Any, R: Any, z: Array) -> float:
        """Return the primal objective at the plane z."""
        G, terms, _ = self.assembled(S, R)
        return float(terms.phi(G @ z).sum()) - terms.constant

    def solve(
        self, S: Any, R: Any, *, near: float | Array = 1.0, margin: float | Array = 1.0, **options: Any
    ) -> tuple[SORResult, Array]:
        """Return the loop's result and the plane; ``near`` and ``margin`` are the samples' weights."""
        G, terms, _ = self.assembled(S, R, near=near, margin=margin)
        result = proximal_point(G, terms, **{k: v for k, v in options.items() if k not in ("start", "finish")})
        return result, result.w

    def proof(
        self, S: Any, R: Any, plane: Array, a: Array, *, near: float | Array = 1.0, margin: float | Array = 1.0
    ) -> Proof | None:
        """Return what a rigorous bound on the plane's gap follows from; None without an identity block to repair by."""
        G, terms, ends = self.assembled(S, R, near=near, margin=margin)
        for block, end in zip(self.blocks, ends, strict=True):
            if block.rows == "I" and block.samples.linear == 0:
                free = (int(end) - S.shape[1], int(end))
                return Proof(np.zeros((0, S.shape[1])), G, plane, a, terms, np.zeros(S.shape[1]), free=free)
        return None

    def multipliers(self, result: SORResult) -> dict[str, Array]:
        """Return the dual variables, all blocks in one vector named ``theta``."""
        return {"theta": result.a}

    def margins(self, result: SORResult, S: Any, R: Any) -> Array | None:
        """Return the multipliers of the margin rows; None where they have none of their own, or several."""
        lengths = {"R": R.shape[0], "S": S.shape[0], "I": S.shape[1]}
        ends = np.cumsum([lengths[block.rows] for block in self.blocks])
        pieces = zip(self.blocks, np.split(result.a, ends[:-1]), strict=True)
        found = [piece for block, piece in pieces if block.rows == "R"]
        return found[0] if len(found) == 1 else None


@dataclass(frozen=True)
class Steps:
    """The third shape: the framework with a loss that is not such a quadratic but comes with its proximal map."""

    formulation: Framework

    shape = "any loss with its proximal map: exact steps of one multiplier on whitened rows"

    def primal_value(self, S: Array, R: Array, z: Array) -> float:
        """Return the primal objective at the plane z."""
        f = self.formulation
        losses = evaluate(f.loss.values, R @ z)
        return float(S @ z @ (S @ z) + f.C1 * (z @ z)) / 2 + f.C2 * float(losses.sum())

    def solve(
        self,
        S: Array,
        R: Array,
        *,
        near: float | Array = 1.0,
        margin: float | Array = 1.0,
        columns: Array | None = None,
        **options: Any,
    ) -> tuple[SORResult, Array]:
        """Return the steps' result and the plane; ``near``, ``margin`` and ``columns`` as :meth:`BoxQP.problem`."""
        f = self.formulation
        ridge = np.full(S.shape[1], float(f.C1))
        factor = Factor(S, ridge if columns is None else ridge / columns, near=near)
        loss = f.loss
        known = {k: v for k, v in options.items() if k in ("tol", "max_sweeps", "time_limit", "random_state")}
        weights = f.C2 * np.broadcast_to(np.asarray(margin, dtype=float), (len(R),))
        try:
            result = coordinate_steps(
                factor.whiten(R), lambda t: evaluate(loss.values, t), loss.prox, np.array(weights), **known
            )
        except Exception as error:  # the file's own function
            raise FormulationError(f"{type(loss).__name__}.prox: {type(error).__name__}: {error}") from error
        return result, factor.solve(R.T @ result.a)

    def proof(self, S: Array, R: Array, plane: Array, a: Array, **weights: Any) -> None:
        """Return None: a bound that includes rounding needs the conjugate's own numbers."""

    def multipliers(self, result: SORResult) -> dict[str, Array]:
        """Return the dual variables by name."""
        return {"a": result.a}

    def margins(self, result: SORResult, S: Array, R: Array) -> Array:
        """Return the multipliers of the margin rows."""
        return result.a


Compiled = BoxQP | BoxLP | Steps
