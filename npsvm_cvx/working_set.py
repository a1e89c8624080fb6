r"""The plane of a :class:`~npsvm_cvx.problem.Problem`, by SOR on the few samples it turns on.  Arrays in, arrays out.

Most samples end far from where their loss bends: all they need is their margin, one product with the plane.  So a
round holds those where they are, and finds the best step of the others by SOR.  With ``t = R z`` and
``r = R'a - M z`` computed from the data itself, the step solves

.. math::
    \min_{\delta}\; \tfrac12 \delta^\top M \delta - r^\top\delta + \sum_{i \in W} \bigl[\phi_i(t_i + r_i^\top \delta)
    - \ldots\bigr], \qquad \delta = M^{-1} (R_W^\top \Delta a + r)

whose dual in :math:`\Delta a` is :func:`~npsvm_cvx.sor.sor`'s problem with shifted numbers.  Since t and r are the
data's own, what the factor of M lost to rounding is made good by the next round: it is also iterative refinement.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kernels import compiled
from .linalg import ClassFactor, Factor
from .problem import Problem, Stack, densified
from .sor import SORResult, refuse_unbounded, sor
from .terms import Array, Terms

_LARGE = 2**17  # entries of R from which a subsample's plane is worth having first
_SHARE = 0.05  # of the margin rows, in that subsample
_NEAREST = 0.1  # of the margin rows, in the first working set
_SPARE = 5  # room, in multiples of the average multiplier, for those that carry the multipliers of all ties
_ROUNDS = 40
_PATIENCE = 4  # rounds in a row that do not halve the gap before all rows are taken, or the iteration is called stalled


@dataclass(frozen=True)
class _Point:
    """A plane and multipliers, and all that a product with the data says of them."""

    z: Array
    a: Array
    t: Array
    drift: Array  # M^-1 (R'a - Mz)
    brackets: Array
    gap: float
    primal: float

    @property
    def dual(self) -> float:
        return self.primal - self.gap

    @property
    def scale(self) -> float:
        return max(abs(self.primal), abs(self.dual)) if np.isfinite(self.gap) else 0.0


def minimise(
    problem: Problem,
    factor: Factor | ClassFactor | None = None,
    *,
    relaxation: float = 1.0,
    tol: float = 1e-8,
    max_sweeps: int = 10_000,
    time_limit: float | None = None,
    start: Array | None = None,
    random_state: int = 0,
    finish: bool = True,
) -> tuple[SORResult, Array]:
    """Return SOR's result and the plane, which the result holds as ``w`` too.

    Parameters
    ----------
    problem : Problem
    factor : Factor or ClassFactor, optional
        Of ``M``, where it is known already.
    relaxation, max_sweeps, start, random_state, finish
        As :func:`~npsvm_cvx.sor.sor`.
    tol : float
        Stop when the duality gap, at the plane as it is returned, is at most ``tol * max(|primal|, |dual|)``.
    time_limit : float, optional
        Seconds; looked at between sweeps and Newton steps, and at least one round is begun.

    Raises
    ------
    ValueError
        As :func:`~npsvm_cvx.sor.sor`.
    NPSVMError
        M is singular.

    Examples
    --------
    >>> S, R = Stack(np.array([[1.0, 1.0], [2.0, 1.0]])), Stack(np.array([[0.0, 1.0]]))
    >>> hinge = Terms.of(1, linear=-1.0, lower=0.0, upper=1.0)
    >>> result, plane = minimise(Problem(S, R, hinge, np.ones(2)))
    >>> plane.round(4), result.converged
    (array([-0.3333,  0.6667]), True)
    """
    deadline = np.inf if time_limit is None else time.monotonic() + time_limit
    if len(problem.terms.linear) != len(problem.R):
        raise ValueError(f"R has {len(problem.R)} rows, the terms are for {len(problem.terms.linear)}.")
    for name, rows in (("S", problem.S), ("R", problem.R)):
        if (rows is problem.R or factor is None) and not rows.finite():
            raise ValueError(f"{name} must be finite.")
    if factor is None:
        factor = factor_of(problem)
    run = _Run(problem, factor, relaxation, tol, max_sweeps, deadline, random_state, finish)
    point, status = run.solve(start)
    scale = point.scale
    relative = point.gap / scale if scale > 0 else (0.0 if point.gap == 0 else np.inf)
    result = SORResult(
        point.a, point.z, point.primal, point.dual, point.gap, relative, run.sweeps, relative <= tol, status
    )
    return result, point.z


def factor_of(problem: Problem) -> Factor:
    """Return the factor of a problem's M."""
    return Factor(problem.S, problem.ridge, near=problem.near, gram=problem.gram)


class _Run:
    """One call of :func:`minimise`: the options, and how many sweeps are spent."""

    def __init__(
        self,
        problem: Problem,
        factor: Factor | ClassFactor,
        relaxation: float,
        tol: float,
        max_sweeps: int,
        deadline: float,
        random_state: int,
        finish: bool,
    ) -> None:
        self.problem, self.factor, self.tol, self.deadline = problem, factor, tol, deadline
        self.relaxation, self.max_sweeps, self.finish = relaxation, max_sweeps, finish
        self.rng = np.random.default_rng(random_state)
        self.sweeps = 0
        terms = problem.terms
        # where phi bends: the margins at which the best multiplier reaches an end of its box
        with np.errstate(invalid="ignore"):
            ends = [
                -terms.linear - np.where(terms.curvature > 0, terms.curvature * bound, 0.0)
                for bound in (terms.lower, terms.upper)
            ]
        self.kinks = [np.where(np.isfinite(end), end, np.inf) for end in ends]

    # --- rounds ----------------------------------------------------------------------------------------------

    def solve(self, start: Array | None) -> tuple[_Point, str]:
        n, d = self.problem.R.shape
        # sparse rows are never whitened all at once, however many features they have
        few = n * d < _LARGE or (n < 20 * d and not self._stay_sparse)
        alone = few or not self.finish or not np.isfinite(self.kinks).any()
        if start is not None or alone:
            point, chosen = self._first(start), np.ones(n, dtype=bool)
        else:
            point, chosen = self._from_subsample()
        best, idle = point, 0
        for _ in range(_ROUNDS):
            if best.gap <= self.tol * best.scale:
                return best, "converged"
            if self.sweeps >= self.max_sweeps:
                return best, "iteration limit"
            if time.monotonic() > self.deadline and self.sweeps:
                return best, "time limit"
            if idle >= _PATIENCE and chosen.all():
                break
            point = self._step(point, chosen)
            idle = 0 if point.gap < 0.5 * best.gap or not np.isfinite(best.gap) else idle + 1
            if point.gap < best.gap or not np.isfinite(best.gap):
                best = point
            if chosen.all():
                point = best  # a round that did not help says that rounding is reached: do not build on it
            elif idle >= _PATIENCE:
                if self._stay_sparse and n > 20 * d:
                    break
                chosen = np.ones(n, dtype=bool)
            else:
                chosen = self._narrow(chosen, point)
        return best, "converged" if best.gap <= self.tol * best.scale else "stalled"

    @property
    def _stay_sparse(self) -> bool:
        """Whether whitening rows makes sparse ones plain: it does but for what classes share, which needs no rows."""
        return self.problem.R.sparse and isinstance(self.factor, Factor)

    def _step(self, at: _Point, chosen: NDArray[np.bool_]) -> _Point:
        """Return the best point that moves the chosen samples' multipliers, and those on a parabola, only."""
        problem, terms = self.problem, self.problem.terms
        parabola = self._on_parabola(at, chosen)
        factor, a, drift, t = self.factor, at.a, at.drift, at.t
        if parabola.any():
            chosen = chosen & ~parabola
            a = np.where(parabola, terms.conjugate_point(t), a)
            factor = self._with_curvature(parabola)
            drift = factor.solve(problem.residual(at.z, a))
        index = np.flatnonzero(chosen)
        move = drift
        if len(index):
            rows = problem.R.take(index)
            F = factor.whiten(rows)
            own, held = terms.at(index), a[index]
            pull = own.linear + own.curvature * held + t[index] + rows @ drift
            shifted = Terms(pull, own.curvature, own.lower - held, own.upper - held)
            found = self._sor(F, shifted, 0.1 * self.tol, at.scale if np.isfinite(at.gap) and self.sweeps else None)
            move = drift + factor.lift(rows, found.a, found.w)
            a = a.copy()
            a[index] = np.clip(held + found.a, own.lower, own.upper)
        else:
            self.sweeps += 1
        z = at.z + move
        t = problem.R.product(z)
        if parabola.any():
            a = np.where(parabola, terms.conjugate_point(t), a)
        return self._point(z, a, t)

    def _sor(self, F: Array, terms: Terms, tol: float, scale: float | None = None) -> SORResult:
        """Run SOR within what is left of sweeps and time."""
        found = sor(
            F,
            terms,
            relaxation=self.relaxation,
            tol=tol,
            max_sweeps=self.max_sweeps - self.sweeps,
            time_limit=None if self.deadline == np.inf else max(self.deadline - time.monotonic(), 0.0),
            random_state=int(self.rng.integers(2**31)),
            finish=self.finish,
            scale=scale,
        )
        self.sweeps += found.sweeps
        return found

    def _point(self, z: Array, a: Array, t: Array | None = None) -> _Point:
        problem = self.problem
        Mz = problem.metric(z)
        if t is None:
            t = problem.R.product(z)
            if not np.isfinite(t.sum()):
                raise ValueError("R must be of a size whose products are finite.")
        r = problem.R.adjoint(a) - Mz
        drift = self.factor.solve(r)
        brackets = np.empty_like(t)
        phi, total = _survey(*problem.terms[:4], a, t, brackets)
        # r'M^-1 r / 2, or the larger |r|^2 / (2 ridge) that a proof can use: a round of refinement more reaches it
        apart = float(r @ drift) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            provable = float(np.where(r == 0, 0.0, r * r / (2 * problem.ridge)).sum())
        gap = total + (provable if np.isfinite(provable) else apart)
        return _Point(z, a, t, drift, brackets, gap, float(z @ Mz) / 2 + phi - problem.terms.constant)

    # --- which samples ---------------------------------------------------------------------------------------

    def _distance(self, t: Array) -> Array:
        """Return how far each margin is from where its loss bends."""
        found = np.empty_like(t)
        _nearest(t, self.kinks[0], self.kinks[1], found)
        return found

    def _narrow(self, chosen: NDArray[np.bool_], at: _Point) -> NDArray[np.bool_]:
        """Return the next working set: who is on the wrong side, who is free, and who could be next."""
        terms = self.problem.terms
        wrong = (at.brackets > 0.1 * self.tol * at.scale / len(at.t)) & ~chosen
        free = chosen & (at.a > terms.lower) & (at.a < terms.upper)
        # the next step is about as long as the worst of the wrong are deep
        depth = self._distance(at.t)
        near = chosen & (depth < 2 * float(depth[wrong].max(initial=0.0)))
        return np.asarray(wrong | free | near)

    def _on_parabola(self, at: _Point, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which samples the step may take as quadratic: their curvature then joins that of M."""
        terms = self.problem.terms
        curved = terms.curvature > 0
        if not curved.any() or not self.finish or isinstance(self.factor, ClassFactor):
            return np.zeros(len(curved), dtype=bool)
        unbounded = curved & ~np.isfinite(terms.lower) & ~np.isfinite(terms.upper)
        best = terms.conjugate_point(at.t)
        return np.asarray(unbounded | (curved & ~chosen & (best > terms.lower) & (best < terms.upper)))

    def _with_curvature(self, parabola: NDArray[np.bool_]) -> Factor:
        """Return the factor of M and the chosen samples' curvature."""
        problem = self.problem
        weights = np.zeros(len(parabola))
        weights[parabola] = 1 / problem.terms.curvature[parabola]
        near = np.concatenate([np.broadcast_to(problem.near, (len(problem.S),)), weights])
        gram = None
        if isinstance(self.factor, Factor) and not self.factor.exact:
            gram = self.factor.U.T @ self.factor.U - np.diag(problem.ridge) + problem.R.gram(weights)
        return Factor(Stack(*problem.S.blocks, *problem.R.blocks), problem.ridge, near=near, gram=gram)

    # --- where to begin --------------------------------------------------------------------------------------

    def _first(self, start: Array | None) -> _Point:
        terms = self.problem.terms
        n, d = self.problem.R.shape
        begin = np.zeros(n) if start is None else np.array(start, dtype=float)
        if begin.shape != (n,) or not np.isfinite(begin).all():
            raise ValueError(f"start must be {n} finite numbers.")
        a = np.clip(begin, terms.lower, terms.upper)
        refuse_unbounded(self.problem.R, terms)
        z = self.factor.solve(self.problem.R.adjoint(a)) if a.any() else np.zeros(d)
        return self._point(z, a)

    def _from_subsample(self) -> tuple[_Point, NDArray[np.bool_]]:
        """Return the plane of some of the margin rows, each counting for many, and the samples near its bends."""
        problem, terms = self.problem, self.problem.terms
        n, d = problem.R.shape
        refuse_unbounded(problem.R, terms)
        index = np.flatnonzero(self.rng.random(n) < max(_SHARE, 10 * d / n))
        s = n / len(index)
        rows = problem.R.take(index)
        F = self.factor.whiten(rows)
        found = self._sor(F, terms.at(index).times(s), tol=1e-6)
        z = self.factor.lift(rows, found.a, found.w)
        t = problem.R.product(z)
        a = np.empty(n)
        _conjugate(*terms[:4], t, a)
        depth = self._distance(t)
        # how far a margin may be from the subsample's optimum: |w - w*|^2 / 2 <= gap
        unsure = 3 * np.sqrt(2 * found.gap) * float(np.sqrt(np.einsum("ij,ij->i", F, F).max())) + 1e-12
        tied = depth <= unsure
        ties, around = int(tied[index].sum()), int((depth[index] <= 10 * unsure).sum())
        if ties > 2 * d and 2 * ties > around:  # more than dimensions, and not a matter of how dense samples lie
            chosen = self._untie(tied, index, rows, found.a / s, a)
        else:
            nearest = np.argpartition(depth, int(_NEAREST * n))[: int(_NEAREST * n)]
            chosen = np.zeros(n, dtype=bool)
            chosen[nearest] = np.isfinite(depth[nearest])
        return self._point(z, a, t), chosen

    def _untie(
        self, tied: NDArray[np.bool_], index: NDArray[np.intp], rows: Any, found: Array, a: Array
    ) -> NDArray[np.bool_]:
        """Share the multipliers out among more samples at a bend than there are dimensions; return whom to move.

        Any multipliers of such samples will do that have the same sum of rows.  The subsample says how large they are
        on average, and in which direction they grow.  Where the average is near an end of the box, those farthest in
        that direction carry all of it and the others stay at that end; else everyone has the average.  ``a`` is
        changed in place.
        """
        terms = self.problem.terms
        there = np.flatnonzero(tied)
        low, high = terms.lower[there], terms.upper[there]
        average = float(found[tied[index]].mean())
        with np.errstate(invalid="ignore"):
            place = (np.clip(average, low, high) - low) / (high - low)
        place = float(np.mean(np.where(np.isfinite(place), place, 0.0)))
        share = min(place, 1 - place)
        count = min(len(there), max(2 * len(index), int(np.ceil(_SPARE * share * len(there)))))
        direction: Array = np.asarray(np.linalg.lstsq(densified(rows.T @ rows), rows.T @ found, rcond=1e-10)[0])
        growth = self.problem.R.product(direction)[there]
        order = np.argpartition(growth if place > 0.5 else -growth, count - 1)
        movers = np.sort(there[order[:count]])
        a[there] = np.clip(average, low, high)
        if _SPARE * share < 1:
            end = low if place < 0.5 else high
            a[there] = np.where(np.isfinite(end), end, a[there])
            carried = a[there[0]] + (average - a[there[0]]) * len(there) / count
            a[movers] = np.clip(carried, terms.lower[movers], terms.upper[movers])
        chosen = np.zeros(len(a), dtype=bool)
        chosen[movers] = True
        return chosen


@compiled
def _nearest(t: Array, one: Array, other: Array, found: Array) -> None:  # pragma: no cover - compiled
    for i in range(t.size):
        found[i] = min(abs(t[i] - one[i]), abs(t[i] - other[i]))


@compiled
def _conjugate(  # pragma: no cover - compiled
    linear: Array, curvature: Array, lower: Array, upper: Array, t: Array, a: Array
) -> None:
    """Write the multiplier that attains ``phi_i(t_i)``, or the box's point nearest zero where none does."""
    for i in range(t.size):
        slope = -(t[i] + linear[i])
        if curvature[i] > 0.0:
            best = slope / curvature[i]
        else:
            best = upper[i] if slope > 0.0 else lower[i] if slope < 0.0 else 0.0
        best = min(max(best, lower[i]), upper[i])
        a[i] = best if np.isfinite(best) else min(max(0.0, lower[i]), upper[i])


@compiled
def _survey(  # pragma: no cover - compiled
    linear: Array, curvature: Array, lower: Array, upper: Array, a: Array, t: Array, brackets: Array
) -> tuple[float, float]:
    """Write ``phi_i(t_i) + h_i(a_i) + a_i t_i`` to ``brackets``; return the sums of phi and of the brackets."""
    phi, total = 0.0, 0.0
    for i in range(t.size):
        slope = -(t[i] + linear[i])
        if curvature[i] > 0.0:
            best = slope / curvature[i]
        elif slope > 0.0:
            best = upper[i]
        elif slope < 0.0:
            best = lower[i]
        else:
            best = a[i]
        best = min(max(best, lower[i]), upper[i])
        if np.isfinite(best):
            step = best - a[i]
            bracket = step * (slope - curvature[i] * best) + curvature[i] * step * step / 2.0
            brackets[i] = max(bracket, 0.0)
            phi += slope * best - curvature[i] * best * best / 2.0
        else:
            brackets[i] = 0.0 if slope == 0.0 else np.inf
            phi += 0.0 if slope == 0.0 else np.inf
        total += brackets[i]
    return phi, total
