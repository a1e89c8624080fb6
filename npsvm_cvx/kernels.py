"""The loops that have to be fast, compiled: sweeps, gaps, and the step of the free multipliers.  numba and arrays.

Nothing is compiled when this is imported, only at a first call, and the result is kept on disk where that can be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .terms import Array

_Function = TypeVar("_Function", bound=Callable[..., Any])

# reassociation lets the dot products use vector registers; NaN and infinity keep their meaning
_FASTMATH = {"reassoc", "contract", "nsz"}


def compiled(function: _Function) -> _Function:
    """Compile on first call; keep the result on disk where there is a place for it, and do without where not."""
    try:
        return njit(cache=True, fastmath=_FASTMATH, nogil=True)(function)
    except RuntimeError:  # no writable cache folder, or no source file (a frozen or zipped install)
        return njit(fastmath=_FASTMATH, nogil=True)(function)


@compiled
def sweep(  # pragma: no cover - compiled
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
            sweep(F, norms, linear, curvature, lower, upper, a, w, relaxation, order)
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
