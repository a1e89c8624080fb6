r"""Successive overrelaxation on whitened rows: arrays in, arrays out.  Knows no model.

The problem, for whitened rows F (l x d) and per-sample numbers:

.. math::
    \max_{a}\; -\tfrac12 |F^\top a|^2 - \sum_i h_i(a_i),\qquad
    h_i(a) = \mathrm{linear}_i\,a + \tfrac12\,\mathrm{curvature}_i\,a^2 + \mathrm{constant}_i,\quad
    \mathrm{lower}_i \le a \le \mathrm{upper}_i

It is the dual of :math:`\min_w \tfrac12|w|^2 + \sum_i \phi_i(f_i^\top w)` with
:math:`\phi_i(t) = \sup_a (-a t - h_i(a))`, and at ``w = F'a`` the duality gap is the sum of the brackets
:math:`\phi_i(t_i) + h_i(a_i) + a_i t_i \ge 0`: complementarity, sample by sample, without cancellation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .newton import LARGEST_SYSTEM, polish, primal_dual_gap
from .newton import finish as newton_finish
from .problem import Stack
from .terms import Array, Terms

_Function = TypeVar("_Function", bound=Callable[..., Any])

# reassociation lets the dot products use vector registers; NaN and infinity keep their meaning
_FASTMATH = {"reassoc", "contract", "nsz"}


def compiled(function: _Function) -> _Function:
    """Compile on first call; keep the result on disk where there is a place for it, and do without where not."""
    try:
        return njit(cache=True, fastmath=_FASTMATH, nogil=True)(function)
    except RuntimeError:  # no writable cache folder, or no source file (a frozen or zipped install)
        return njit(fastmath=_FASTMATH, nogil=True)(function)


@dataclass(frozen=True)
class SORResult:
    """Where the iteration ended, with the gap that says how near the optimum that is.

    Attributes
    ----------
    a : (l,) array
        Multipliers, inside their domain exactly.
    w : (d,) array
        The plane in whitened coordinates, ``F'a`` or nearer the optimum.
    primal, dual, gap : float
        Objective values at w and a, and their difference as a sum of nonnegative terms, an upper bound on either's
        distance to optimal.
    relative_gap : float
        ``gap / max(|primal|, |dual|)``.
    sweeps : int
    converged : bool
        Whether the relative gap asked for was reached.
    status : str
        "converged", "iteration limit", "time limit" or "stalled" (no further progress at working precision).
    """

    a: Array
    w: Array
    primal: float
    dual: float
    gap: float
    relative_gap: float
    sweeps: int
    converged: bool
    status: str


@compiled
def _sweep(  # pragma: no cover - compiled
    F: Array,
    norms: Array,
    linear: Array,
    curvature: Array,
    lower: Array,
    upper: Array,
    a: Array,
    w: Array,
    relaxation: float,
    order: NDArray[np.intp],
) -> None:
    """One pass over the samples in ``order``; a and w are updated in place, w staying F'a."""
    for k in range(order.size):
        i = order[k]
        row = F[i]
        slope = linear[i] + curvature[i] * a[i]
        for j in range(row.size):
            slope += row[j] * w[j]
        scale = norms[i] + curvature[i]
        if scale > 0.0:
            target = min(max(a[i] - slope / scale, lower[i]), upper[i])
            new = min(max(a[i] + relaxation * (target - a[i]), lower[i]), upper[i])
        elif slope < 0.0:
            new = upper[i]
        elif slope > 0.0:
            new = lower[i]
        else:
            new = a[i]
        change = new - a[i]
        if change != 0.0:
            a[i] = new
            for j in range(row.size):
                w[j] += change * row[j]


@compiled
def image(F: Array, a: Array, w: Array) -> None:  # pragma: no cover - compiled
    """Write F'a to w."""
    w[:] = 0.0
    for i in range(F.shape[0]):
        if a[i] != 0.0:
            for j in range(F.shape[1]):
                w[j] += a[i] * F[i, j]


@compiled
def gap_at(  # pragma: no cover - compiled
    F: Array, linear: Array, curvature: Array, lower: Array, upper: Array, a: Array, w: Array
) -> tuple[float, float]:
    """Return the duality gap at ``w = F'a``, bracket by bracket, and the dual value without the constant."""
    gap, h = 0.0, 0.0
    for i in range(F.shape[0]):
        t = 0.0
        for j in range(F.shape[1]):
            t += F[i, j] * w[j]
        slope = -(t + linear[i])
        if curvature[i] > 0.0:
            best = slope / curvature[i]
        elif slope > 0.0:
            best = upper[i]
        elif slope < 0.0:
            best = lower[i]
        else:
            best = a[i]
        best = min(max(best, lower[i]), upper[i])
        if not np.isfinite(best):
            gap = np.inf
        else:
            step = best - a[i]
            gap += max(step * (slope - curvature[i] * best) + curvature[i] * step * step / 2.0, 0.0)
        h += linear[i] * a[i] + curvature[i] * a[i] * a[i] / 2.0
    square = 0.0
    for j in range(w.size):
        square += w[j] * w[j]
    return gap, -square / 2.0 - h


@compiled
def descend(  # pragma: no cover - compiled
    F: Array,
    norms: Array,
    linear: Array,
    curvature: Array,
    lower: Array,
    upper: Array,
    constant: float,
    a: Array,
    w: Array,
    relaxation: float,
    seed: int,
    tol: float,
    scale: float,
    most: int,
) -> tuple[float, int]:
    """Sweep in random orders, now and then trying where the free multipliers' gradient vanishes; update a and w.

    Returns the gap, relative to ``scale`` or, where that is negative, to the larger of the two values; and the sweeps.
    """
    n, d = F.shape
    state = np.uint64(seed * 2 + 1)
    order = np.arange(n)
    interval, done = 2, 0
    relative = np.inf
    trial, other = np.empty(n), np.empty(d)
    while True:
        gap, dual = gap_at(F, linear, curvature, lower, upper, a, w)
        relative = _over(gap, dual - constant, scale)
        for _ in range(_FREE_STEPS):
            if relative <= tol or done == 0:
                break
            trial[:] = a
            if not _free_step(F, linear, curvature, lower, upper, trial, w):
                break
            image(F, trial, other)
            next_gap, next_dual = gap_at(F, linear, curvature, lower, upper, trial, other)
            if not next_gap < gap:
                break
            a[:], w[:], gap = trial, other, next_gap
            relative = _over(gap, next_dual - constant, scale)
        if relative <= tol or done >= most:
            return relative, done
        for _ in range(min(interval, most - done)):
            for m in range(n - 1, 0, -1):  # Fisher and Yates's shuffle by Marsaglia's xorshift
                state ^= state << np.uint64(13)
                state ^= state >> np.uint64(7)
                state ^= state << np.uint64(17)
                q = int(state % np.uint64(m + 1))
                order[m], order[q] = order[q], order[m]
            _sweep(F, norms, linear, curvature, lower, upper, a, w, relaxation, order)
            done += 1
        image(F, a, w)
        interval = min(2 * interval, 16)


_FREE_STEPS = 5  # a step that takes multipliers to the ends of their boxes leaves fewer free for the next


@compiled
def _over(gap: float, dual: float, scale: float) -> float:  # pragma: no cover - compiled
    size = scale if scale >= 0.0 else max(abs(dual), abs(dual + gap))
    if size > 0.0:
        return gap / size
    return 0.0 if gap == 0.0 else np.inf


@compiled
def _free_step(  # pragma: no cover - compiled
    F: Array, linear: Array, curvature: Array, lower: Array, upper: Array, a: Array, w: Array
) -> bool:
    """Move the free multipliers to where the gradient vanishes, then into their boxes; False where nothing is free."""
    n, d = F.shape
    free = np.empty(n, dtype=np.int64)
    count = 0
    for i in range(n):
        if lower[i] < a[i] < upper[i]:
            free[count] = i
            count += 1
    flat = 0
    for m in range(count):
        flat += curvature[free[m]] == 0.0
    if count == 0 or min(count, d) * d * count > _MOST_WORK or (count > d and 0 < flat < count):
        return False
    slope = np.empty(count)
    for m in range(count):
        i = free[m]
        slope[m] = linear[i] + curvature[i] * a[i]
        for j in range(d):
            slope[m] += F[i, j] * w[j]
    step = np.empty(count)
    if count <= d:
        K = np.zeros((count, count))
        for m in range(count):
            for q in range(m + 1):
                for j in range(d):
                    K[m, q] += F[free[m], j] * F[free[q], j]
                K[q, m] = K[m, q]
            K[m, m] += curvature[free[m]]
        if not _cholesky_solve(K, slope, step):
            return False
    elif flat:
        # more ties than dimensions: of all steps the one in proportion to the room each multiplier has
        room = np.empty(count)
        for m in range(count):
            room[m] = min(a[free[m]] - lower[free[m]], upper[free[m]] - a[free[m]])
        K, H, right, inner, outer = np.zeros((d, d)), np.zeros((d, d)), np.zeros(d), np.zeros(d), np.zeros(d)
        for m in range(count):
            i = free[m]
            for j in range(d):
                right[j] += F[i, j] * slope[m]
                for q in range(d):
                    K[j, q] += F[i, j] * F[i, q]
                    H[j, q] += F[i, j] * F[i, q] * room[m] * room[m]
        if not (_cholesky_solve(K, right, inner) and _cholesky_solve(H, inner, outer)):
            return False
        for m in range(count):
            step[m] = 0.0
            for j in range(d):
                step[m] += room[m] * room[m] * F[free[m], j] * outer[j]
    else:
        K, right, inner = np.eye(d), np.zeros(d), np.zeros(d)
        for m in range(count):
            i = free[m]
            for j in range(d):
                right[j] += F[i, j] * slope[m] / curvature[i]
                for q in range(j + 1):
                    K[j, q] += F[i, j] * F[i, q] / curvature[i]
        for j in range(d):
            for q in range(j):
                K[q, j] = K[j, q]
        if not _cholesky_solve(K, right, inner):
            return False
        for m in range(count):
            i = free[m]
            value = slope[m]
            for j in range(d):
                value -= F[i, j] * inner[j]
            step[m] = value / curvature[i]
    for m in range(count):
        i = free[m]
        a[i] = min(max(a[i] - step[m], lower[i]), upper[i])
    return True


_MOST_WORK = 2**22  # operations of a free step, beyond which it is left to a library's routines


@compiled
def _cholesky_solve(K: Array, right: Array, found: Array) -> bool:  # pragma: no cover - compiled
    """Solve K x = right, K overwritten; False where K is singular to working precision."""
    n = right.size
    largest = 0.0
    for i in range(n):
        largest = max(largest, K[i, i])
    for j in range(n):
        for k in range(j):
            K[j, j] -= K[j, k] * K[j, k]
        if not K[j, j] > 1e-14 * largest:
            return False
        K[j, j] = np.sqrt(K[j, j])
        for i in range(j + 1, n):
            for k in range(j):
                K[i, j] -= K[i, k] * K[j, k]
            K[i, j] /= K[j, j]
    for i in range(n):
        found[i] = right[i]
        for k in range(i):
            found[i] -= K[i, k] * found[k]
        found[i] /= K[i, i]
    for m in range(n):
        i = n - 1 - m
        for k in range(i + 1, n):
            found[i] -= K[k, i] * found[k]
        found[i] /= K[i, i]
    return True


def compress(F: Array) -> tuple[Array, Array | None]:
    """Return rows with the same inner products in no more columns than rows, and the basis that leads back.

    With more columns than rows the sweep would pay for coordinates no row distinguishes.  A whitened plane w of the
    new rows is ``basis @ w`` of the old; None stands for the identity.
    """
    l, d = F.shape
    if d <= l:
        return np.ascontiguousarray(F, dtype=float), None
    basis, r = np.linalg.qr(F.T)
    return np.ascontiguousarray(r.T), basis


def sor(
    F: Array,
    terms: Terms,
    *,
    relaxation: float = 1.0,
    tol: float = 1e-8,
    max_sweeps: int = 10_000,
    time_limit: float | None = None,
    start: Array | None = None,
    random_state: int = 0,
    finish: bool = True,
    scale: float | None = None,
) -> SORResult:
    r"""Maximise the dual above by SOR sweeps, finished by a few Newton steps on the free multipliers.

    Parameters
    ----------
    F : (l, d) array
        Whitened margin rows.
    terms : Terms
        ``h_i``: linear, curvature, lower, upper, and the constant.
    relaxation : float in (0, 2)
        One is coordinate ascent; the field's SOR is anything in the interval.
    tol : float
        Stop when ``gap <= tol * max(|primal|, |dual|)``.
    max_sweeps : int
    time_limit : float, optional
        Seconds; looked at between sweeps.
    start : (l,) array, optional
        Multipliers to begin from; clipped to their domain.
    random_state : int
        Seed of the order of the samples, drawn anew for each sweep.
    finish : bool
        Whether to take the Newton steps that end on the exact solution.
    scale : float, optional
        What ``tol`` is relative to, instead of the larger of the two values: for a problem that is what remains of
        another one.

    Raises
    ------
    ValueError
        Non-finite F, relaxation outside (0, 2), lengths that disagree, or an unbounded dual.

    Examples
    --------
    The hinge loss on one row: ``max a - |f|^2 a^2 / 2`` on [0, 1].

    >>> result = sor(np.array([[2.0, 0.0]]), Terms.of(1, linear=-1.0, lower=0.0, upper=1.0))
    >>> float(result.a[0]), result.gap, result.converged
    (0.25, 0.0, True)

    Notes
    -----
    The iteration is that of Mangasarian and Musicant (1999) on the whitened rows, with exact coordinate steps.
    """
    rows = np.ascontiguousarray(F, dtype=float)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise ValueError("F must be a finite matrix.")
    n = rows.shape[0]
    if any(len(x) != n for x in terms[:4]):
        raise ValueError(f"F has {n} rows, the terms are for {len(terms.linear)}.")
    if not 0 < relaxation < 2:
        raise ValueError(f"relaxation={relaxation!r} must lie in (0, 2).")
    if not tol >= 0:
        raise ValueError(f"tol={tol!r} must be nonnegative.")
    rows, basis = compress(rows)
    norms = np.einsum("ij,ij->i", rows, rows)
    refuse_unbounded(rows, terms)
    begin = np.zeros(n) if start is None else np.array(start, dtype=float)
    if begin.shape != (n,) or not np.isfinite(begin).all():
        raise ValueError(f"start must be {n} finite numbers.")
    a = np.clip(begin, terms.lower, terms.upper)
    w = rows.T @ a
    rng = np.random.default_rng(random_state)
    deadline = np.inf if time_limit is None else time.monotonic() + time_limit
    numbers = (terms.linear, terms.curvature, terms.lower, terms.upper)

    best = _score(rows, terms, a, w, 0, tol, scale)
    sweeps, interval, idle, last = 0, 4, 0, best.dual
    if finish and not best.converged and rows.size < _SMALL:
        size, seed = -1.0 if scale is None else scale, int(rng.integers(2**31))
        most = min(_SWEEPS_FIRST, max_sweeps)
        _, sweeps = descend(rows, norms, *numbers, terms.constant, a, w, relaxation, seed, tol, size, most)
        now = _score(rows, terms, a, w, sweeps, tol, scale)
        best = now if now.gap <= best.gap or not np.isfinite(best.gap) else best
    active, before = np.arange(n), rows @ w
    while not best.converged and idle < _PATIENCE:
        if sweeps >= max_sweeps:
            return _ended(best, basis, sweeps, "iteration limit")
        if time.monotonic() > deadline:
            return _ended(best, basis, sweeps, "time limit")
        for _ in range(min(interval, max_sweeps - sweeps)):
            _sweep(rows, norms, *numbers, a, w, relaxation, rng.permutation(active))
            sweeps += 1
        w = rows.T @ a
        if finish:
            margins = rows @ w
            active, before = _movable(terms, a, margins, before), margins
        now = _score(rows, terms, a, w, sweeps, tol, scale)
        if finish and not now.converged:
            # once the sweeps have found which multipliers are free, one linear system has their values; should they
            # be slow to find it, proximal Newton rounds do, at the price of a hundred sweeps or so
            polished, gap = polish(rows, terms, a)
            if gap < now.gap:
                now = _score(rows, terms, polished, rows.T @ polished, sweeps, tol, scale)
            if not now.converged and sweeps >= _SWEEPS_FIRST and min(rows.shape) <= LARGEST_SYSTEM:
                size = max(abs(now.primal), abs(now.dual)) if np.isfinite(now.primal) else abs(now.dual)
                a, plane = newton_finish(rows, terms, now.a, tol * (size if scale is None else scale), deadline)
                now = _score(rows, terms, a, plane, sweeps, tol, scale)
                w = rows.T @ a
        # sweeps alone raise the dual while the gap, which is not monotone, may not fall for long
        rising = not finish and now.dual > last + 1e-14 * abs(now.dual)
        idle, last = 0 if now.gap < 0.9 * best.gap or rising else idle + 1, now.dual
        if now.gap <= best.gap or not np.isfinite(best.gap):
            best = now
        interval = min(2 * interval, 25)
    return _ended(best, basis, sweeps, "converged" if best.converged else "stalled")


_SWEEPS_FIRST = 28
_SMALL = 2**18  # entries of F up to which these first sweeps are one call, too short to want interrupting


def _movable(terms: Terms, a: Array, t: Array, before: Array) -> NDArray[np.intp]:
    """Return who may leave an end of its box, if margins move as far again as they did since they were ``before``."""
    slope = t + terms.linear + terms.curvature * a
    reach = float(np.abs(t - before).max(initial=0.0))
    return np.flatnonzero(~(((a == terms.lower) & (slope > reach)) | ((a == terms.upper) & (slope < -reach))))


_PATIENCE = 10  # gap evaluations without a tenth of progress before the iteration is called stalled


def refuse_unbounded(rows: Array | Stack, terms: Terms) -> None:
    """Raise ValueError where a row of zeros has a multiplier without a bound: no plane meets its margin."""
    up = (terms.linear < 0) & ~np.isfinite(terms.upper)
    down = (terms.linear > 0) & ~np.isfinite(terms.lower)
    flat = (up | down) & (terms.curvature == 0)
    if not flat.any():
        return
    for span, part in Stack.of(rows).chunks():
        zero = flat[span] & ~part.any(axis=1)
        if zero.any():
            raise ValueError(
                f"the dual is unbounded: row {span.start + int(np.argmax(zero))} of F is zero and its multiplier has "
                "no bound, so no plane meets that margin."
            )


def _score(
    rows: Array, terms: Terms, a: Array, w: Array, sweeps: int, tol: float, scale: float | None = None
) -> SORResult:
    image = rows.T @ a
    gap = primal_dual_gap(rows, terms, a, w, image)
    dual = -float(image @ image) / 2 - terms.h(a)
    primal = dual + gap
    size = max(abs(primal), abs(dual)) if scale is None else scale
    relative = gap / size if size > 0 and np.isfinite(gap) else (0.0 if gap == 0 else np.inf)
    return SORResult(a.copy(), w.copy(), primal, dual, gap, relative, sweeps, relative <= tol, "")


def _ended(result: SORResult, basis: Array | None, sweeps: int, status: str) -> SORResult:
    w = result.w if basis is None else basis @ result.w
    return replace(result, w=w, sweeps=sweeps, status=status)
