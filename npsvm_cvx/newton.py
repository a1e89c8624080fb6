"""The end of the iteration: from multipliers near the optimum to the exact solution, by Newton steps.

Arrays in, arrays out, as :mod:`npsvm_cvx.sor`, whose sweeps come before.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from .terms import Array, Terms


def primal_dual_gap(rows: Array, terms: Terms, a: Array, w: Array, image: Array) -> float:
    """Return primal(w) - dual(a): the brackets, and ``|F'a - w|^2 / 2`` where w is not F'a."""
    apart = image - w
    return float(terms.brackets(a, rows @ w).sum() + apart @ apart / 2)


LARGEST_SYSTEM = 3000
"""Rows or columns, whichever are fewer, beyond which one dense Newton step costs more than many sweeps."""


def finish(rows: Array, terms: Terms, a: Array, target: float, deadline: float) -> tuple[Array, Array]:
    r"""End on the exact solution by proximal rounds in a, each solved by Newton steps in w.

    A round maximises the dual less :math:`\tfrac{\delta}{2}|a - a_\mathrm{prev}|^2`.  Seen from the primal, the kinks
    of :math:`\phi_i` become quadratic pieces of curvature :math:`1/(\delta + \mathrm{curvature}_i)`: the problem in w
    is smooth, strongly convex and piecewise quadratic, so Newton's method with a line search ends in finitely many
    steps whatever ties, duplicates or dependent rows there are (the semismooth Newton augmented Lagrangian method of
    Li, Sun, Toh 2018).  Rounds with a smaller and smaller delta end at the solution.

    Returns the multipliers and the plane.  On rows of large norm the plane is known to more digits than ``F'a``, whose
    terms cancel.
    """
    size = float(np.mean(np.einsum("ij,ij->i", rows, rows) + terms.curvature))
    delta, smallest = 0.1 * size, _SMALLEST_DELTA * size
    best, plane, best_gap = a, rows.T @ a, np.inf
    idle = 0
    for _ in range(_FINISH_ROUNDS):
        a, w = _newton_round(rows, terms, a, delta, deadline)
        gap = primal_dual_gap(rows, terms, a, w, rows.T @ a)
        polished, polished_gap = polish(rows, terms, a)
        if polished_gap < gap:
            a, gap, w = polished, polished_gap, rows.T @ polished
        progress = gap < 0.5 * best_gap
        idle = 0 if progress or delta > _SETTLED_DELTA * size else idle + 1
        if gap < best_gap:
            best, plane, best_gap = a, w, gap
        if best_gap <= target or idle >= 4 or time.monotonic() > deadline:
            break
        if gap > 2 * best_gap:  # delta is below what the rounding of the margins resolves
            a = best
        # far from the solution's own scale a round moves little: go there faster
        delta = max(delta / (10 if progress or delta <= _SETTLED_DELTA * size else 100), smallest)
    return best, plane


_FINISH_ROUNDS = 40
_SETTLED_DELTA = 1e-9  # relative to the rows: from here on a round without progress counts against going on
_SMALLEST_DELTA = 1e-15  # below it the multipliers read off the margins are rounding, whatever the data


def polish(rows: Array, terms: Terms, a: Array) -> tuple[Array, float]:
    """Put the free multipliers where the gradient vanishes, as long as that lowers the gap; return a and its gap.

    A round reads multipliers off margins divided by delta; this reads margins off multipliers, whose rounding a small
    delta does not magnify.
    """
    gap = float(terms.brackets(a, rows @ (rows.T @ a)).sum())
    for _ in range(3):
        free = (a > terms.lower) & (a < terms.upper)
        count = int(free.sum())
        if not count or min(count, rows.shape[1]) > LARGEST_SYSTEM:
            break
        slope = (rows[free] @ (rows.T @ a)) + terms.linear[free] + terms.curvature[free] * a[free]
        room = np.minimum(a - terms.lower, terms.upper - a)[free]
        step = np.zeros_like(a)
        step[free] = _stationary(rows[free], terms.curvature[free], slope, room)
        moved = np.clip(a + step, terms.lower, terms.upper)
        then = float(terms.brackets(moved, rows @ (rows.T @ moved)).sum())
        if not then < gap:
            break
        a, gap = moved, then
    return a, gap


def _stationary(free: Array, curvature: Array, slope: Array, room: Array) -> Array:
    """Return p with ``(F_J F_J' + D) p = -slope``, without forming the product.

    Where many do, as when more samples than dimensions tie, the one of least ``|p / room|``: a step in proportion to
    the room each multiplier has is seldom clipped.
    """
    n, d = free.shape
    if n > d and (curvature > 0).all():
        return _woodbury(free, curvature, slope)
    if (curvature > 0).any():
        free = np.hstack([free, np.diag(np.sqrt(curvature))])
        d += n
    if n > d:
        finite = np.isfinite(room)
        room = np.minimum(room, 1e3 * np.median(room[finite])) if finite.any() else np.ones(n)
        scaled = free * room[:, None]
        # the rows are whitened, so that their Gram matrices lose few digits; the caller's next step restores them
        inner = _solve_semidefinite(free.T @ free, free.T @ -slope, _SINGULAR)
        return np.asarray(room * (scaled @ _solve_semidefinite(scaled.T @ scaled, inner, _SINGULAR)))
    r = np.linalg.qr(free.T, mode="r")
    pivots = np.abs(np.diag(r))
    if pivots.min() > 1e-13 * pivots.max():
        return -np.asarray(solve_triangular(r, solve_triangular(r, slope, trans="T")))
    least = np.linalg.lstsq(free, -slope, rcond=1e-13)[0]
    return np.asarray(np.linalg.lstsq(free.T, least, rcond=1e-13)[0])


def _woodbury(free: Array, curvature: Array, slope: Array) -> Array:
    """Return ``-(F F' + D)^-1 slope`` by a system of F's columns, which are fewer than its rows."""
    scaled = free / np.sqrt(curvature)[:, None]
    system = scaled.T @ scaled
    system[np.diag_indices(len(system))] += 1.0
    right = slope / curvature
    inner = _solve_semidefinite(system, free.T @ right)
    return np.asarray((free @ inner) / curvature - right)


_SINGULAR = 1e-6  # of pivots of a Gram matrix: what is left of twelve digits


def _solve_semidefinite(system: Array, right: Array, smallest: float = 0.0) -> Array:
    """Return the solution; of least norm where a pivot is at most ``smallest`` times the largest, or rounding."""
    try:
        factor = cho_factor(system, lower=True, check_finite=False)
        pivots = np.diag(factor[0])
        if pivots.min(initial=np.inf) > smallest * pivots.max(initial=0.0):
            return np.asarray(cho_solve(factor, right, check_finite=False))
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(system)
    kept = values > 1e-13 * values[-1]
    return np.asarray(vectors[:, kept] @ ((vectors[:, kept].T @ right) / values[kept]))


def _newton_round(rows: Array, terms: Terms, previous: Array, delta: float, deadline: float) -> tuple[Array, Array]:
    """Solve one round; return its multipliers and plane, exact to rounding unless the deadline came first."""
    weight = 1.0 / (delta + terms.curvature)
    shift = delta * previous - terms.linear
    w = rows.T @ previous

    def multipliers(t: Array) -> Array:
        return np.clip((shift - t) * weight, terms.lower, terms.upper)

    t = rows @ w
    a = multipliers(t)
    best, plane, best_size, idle = a, w, np.inf, 0
    for _ in range(_NEWTON_STEPS):
        gradient = w - rows.T @ a
        size = float(np.linalg.norm(gradient))
        idle = 0 if size < 0.5 * best_size else idle + 1
        if size < best_size:
            best, plane, best_size = a, w, size
        scale = float(np.linalg.norm(w))
        settled = size <= 1e-15 * scale or (idle >= 2 and best_size <= 1e-7 * scale)
        if settled or idle >= 25 or time.monotonic() > deadline:
            break
        free = (a > terms.lower) & (a < terms.upper)
        step = -_solve_newton(rows[free], weight[free], gradient)
        move = rows @ step
        at, rate = float(step @ w), float(step @ step)

        def slope(length: float, at: float = at, rate: float = rate, t: Array = t, move: Array = move) -> float:
            return at + length * rate - float(move @ multipliers(t + length * move))

        length = _least(slope)
        w, t = w + length * step, t + length * move
        if idle:
            t = rows @ w  # the running update of t has drifted as far as the steps are now small
        a = multipliers(t)
    return best, plane


_NEWTON_STEPS = 100


def _least(slope: Callable[[float], float]) -> float:
    """Return the minimiser on (0, 1] of a convex function with this derivative, which is negative at zero.

    Function values could not tell the last steps apart; the derivative can.
    """
    at_high = slope(1.0)
    if at_high <= 0:
        return 1.0
    low, high, at_low = 0.0, 1.0, slope(0.0)
    enough = 1e-6 * abs(at_low)
    last = 0
    for _ in range(30):
        # false position, the end that stays halved (Illinois): the derivative is piecewise linear
        middle = high - at_high * (high - low) / (at_high - at_low) if at_high > at_low else (low + high) / 2
        found = slope(middle)
        if abs(found) <= enough:
            return middle
        if found < 0:
            low, at_low = middle, found
            at_high = at_high / 2 if last == -1 else at_high
            last = -1
        else:
            high, at_high = middle, found
            at_low = at_low / 2 if last == 1 else at_low
            last = 1
    return high if low == 0.0 else low


def _solve_newton(free: Array, weight: Array, gradient: Array) -> Array:
    """Solve ``(I + F_J' W F_J) p = gradient`` on the smaller side."""
    n, d = free.shape
    scaled = free * np.sqrt(weight)[:, None]
    if n >= d:
        system = scaled.T @ scaled
        system[np.diag_indices(d)] += 1.0
        return _solve_semidefinite(system, gradient)
    system = scaled @ scaled.T
    system[np.diag_indices(n)] += 1.0
    return np.asarray(gradient - scaled.T @ _solve_semidefinite(system, scaled @ gradient))
