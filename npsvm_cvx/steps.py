r"""Coordinate steps for any convex loss that comes with its proximal map.  Arrays and a function in, arrays out.

The same dual as :mod:`~npsvm_cvx.sor`'s, where ``h_i(a) = c_i L^*(-a / c_i)`` need be no quadratic, nor its domain
known:

.. math::
    \max_a\; -\tfrac12 |F^\top a|^2 - \sum_i c_i L^*(-a_i / c_i)

The best value of one multiplier, the others held, has the margin ``t = prox_{q c L}(m - q a)`` with ``m = f'v`` and
``q = |f|^2``, and is ``a + (t - m) / q`` (Moreau).  There Fenchel and Young's inequality is an equality, so that
``h = -a t - c L(t)`` needs no conjugate, and the gap is a sum of nonnegative terms as ever.  Knows no model.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from .sor import SORResult, compress
from .terms import Array

Loss = Callable[[Array], Array]
Prox = Callable[[Array, Array], Array]
_PATIENCE = 30  # gap evaluations in a row without a tenth of progress before the iteration is called stalled


def coordinate_steps(
    F: Array,
    loss: Loss,
    prox: Prox,
    weights: Array,
    *,
    tol: float = 1e-8,
    max_sweeps: int = 10_000,
    time_limit: float | None = None,
    random_state: int = 0,
) -> SORResult:
    """Maximise the dual by exact steps, one multiplier at a time, each sweep in a random order.

    Parameters
    ----------
    F : (l, d) array
        Whitened margin rows.
    loss : callable
        ``L``, elementwise.
    prox : callable (t, s)
        ``argmin_x L(x) + (x - t)^2 / (2 s)``, elementwise.
    weights : (l,) array
        ``c``, the price of each sample's loss; zero for a sample that counts for nothing.
    tol, max_sweeps, time_limit, random_state
        As :func:`~npsvm_cvx.sor.sor`.

    Raises
    ------
    ValueError
        The proximal map returns something that is no finite number.

    Examples
    --------
    The hinge loss on one row, whose multiplier is 1/4:

    >>> hinge = lambda t: np.maximum(1 - t, 0)
    >>> prox = lambda t, s: np.where(t < 1 - s, t + s, np.maximum(t, 1))
    >>> result = coordinate_steps(np.array([[2.0, 0.0]]), hinge, prox, np.ones(1))
    >>> float(result.a[0]), result.converged
    (0.25, True)
    """
    rows, basis = compress(np.ascontiguousarray(F, dtype=float))
    squares = np.einsum("ij,ij->i", rows, rows)
    a, h, v = np.zeros(len(rows)), np.full(len(rows), np.inf), np.zeros(rows.shape[1])
    # a row of zeros has the margin zero whatever the plane: its multiplier moves nothing, and any will do
    still = (squares == 0) | (weights == 0)
    h[still] = 0.0
    order, rng = np.flatnonzero(~still), np.random.default_rng(random_state)
    deadline = np.inf if time_limit is None else time.monotonic() + time_limit
    best, idle, sweeps, status = None, 0, 0, "iteration limit"
    while sweeps < max_sweeps:
        for i in rng.permutation(order):
            margin, q, c = float(rows[i] @ v), squares[i], weights[i]
            t = prox(np.array([margin - q * a[i]]), np.array([q * c]))
            there = float(np.asarray(t, dtype=float).ravel()[0])
            if not np.isfinite(there):
                raise ValueError(
                    f"the proximal map is no finite number at t = {margin - q * a[i]:.6g}, s = {q * c:.6g}."
                )
            step = (there - margin) / q
            a[i] += step
            v += step * rows[i]
            h[i] = -a[i] * there - c * float(loss(np.array([there]))[0])
        sweeps += 1
        v = rows.T @ a
        now = _score(rows, loss, weights, a, h, v, still, sweeps, tol)
        idle = 0 if best is None or now.gap < 0.9 * best.gap else idle + 1
        best = now if best is None or now.gap <= best.gap else best
        if best.converged or idle > _PATIENCE or time.monotonic() > deadline:
            status = "converged" if best.converged else "stalled" if idle > _PATIENCE else "time limit"
            break
    if best is None:
        best = _score(rows, loss, weights, a, h, v, still, sweeps, tol)
    w = best.w if basis is None else basis @ best.w
    return SORResult(best.a, w, best.primal, best.dual, best.gap, best.relative_gap, sweeps, best.converged, status)


def _score(
    rows: Array, loss: Loss, weights: Array, a: Array, h: Array, v: Array, still: Array, sweeps: int, tol: float
) -> SORResult:
    margins = rows @ v
    cost = weights * loss(margins)
    # h is a supremum over margins: had the proximal map not found it, another margin nearby would have more
    for away in (-1.0, -1e-2, -1e-4, 1e-4, 1e-2, 1.0):
        there = margins + away
        h = np.where(still, h, np.fmax(h, -a * there - weights * loss(there)))
    brackets = np.where(still, 0.0, np.maximum(cost + h + a * margins, 0.0))
    primal, gap = float(v @ v) / 2 + float(cost.sum()), float(brackets.sum())
    dual = primal - gap
    size = max(abs(primal), abs(dual))
    relative = gap / size if size > 0 and np.isfinite(gap) else (0.0 if gap == 0 else np.inf)
    return SORResult(a.copy(), v.copy(), primal, dual, gap, relative, sweeps, relative <= tol, "")
