"""A linear program's dual by proximal rounds around SOR: arrays in, arrays out.  Knows no model."""

from __future__ import annotations

import time

import numpy as np

from .sor import SORResult, sor
from .terms import Array, Terms


def proximal_point(
    G: Array,
    terms: Terms,
    *,
    relaxation: float = 1.0,
    tol: float = 1e-8,
    max_sweeps: int = 100_000,
    time_limit: float | None = None,
    random_state: int = 0,
) -> SORResult:
    r"""Maximise ``-sum h_i(a_i)`` subject to ``G'a = 0`` and the box: a linear program's dual, by the same sweeps.

    Its primal is :math:`\min_z \sum_i \phi_i(g_i^\top z)`.  Each round adds
    :math:`\tfrac{\rho}{2}|z - z_\mathrm{prev}|^2_M`, which makes the round's dual the problem of :func:`sor`; the
    rounds end at an exact solution (Rockafellar 1976).  ``M = G' diag(s)^2 G`` with s the boxes' sizes: each row weighs
    what its multiplier can, so that the rounds needed do not depend on the ratios of C1, C2 and one.

    Parameters
    ----------
    G : (n, d) array
        Rows, of full column rank.
    terms : Terms
        Curvature zero and boxes with zero inside (or nothing else), so that a multiplier can be made feasible exactly
        by shrinking it.

    Returns
    -------
    SORResult
        ``w`` is the plane z itself; ``a`` satisfies ``G'a = 0`` to rounding.

    Raises
    ------
    ValueError
        As :func:`sor`; and where zero is not inside a box or a curvature is positive.
    """
    rows = np.ascontiguousarray(G, dtype=float)
    holds = ((terms.lower < 0) & (terms.upper > 0)) | ((terms.lower == 0) & (terms.upper == 0))
    if (terms.curvature != 0).any() or not holds.all():
        raise ValueError("the proximal loop needs zero curvature and boxes with zero inside.")
    if not (np.isfinite(terms.lower).all() and np.isfinite(terms.upper).all()):
        raise ValueError("the proximal loop needs finite boxes.")
    size = np.maximum(-terms.lower, terms.upper)
    unit = np.where(size > 0, size, 1.0)
    scaled = Terms(terms.linear * size, terms.curvature, terms.lower / unit, terms.upper / unit, terms.constant)
    rows = rows * size[:, None]
    scale = np.sqrt(np.einsum("ij,ij->j", rows, rows))
    if not np.isfinite(rows).all() or (scale == 0).any():
        raise ValueError("G must be finite, with no column of zeros.")
    q, r = np.linalg.qr(rows / scale)
    F = np.ascontiguousarray(q)
    deadline = np.inf if time_limit is None else time.monotonic() + time_limit

    w, a = np.zeros(F.shape[1]), np.zeros(F.shape[0])
    rho, inner = 0.1 * float(np.sqrt(F.shape[0] / F.shape[1])), 1e-3
    best, sweeps, idle, status = _score(F, scaled, a, w, 0, tol), 0, 0, "iteration limit"
    for _ in range(_ROUNDS):
        round_terms = scaled._replace(linear=scaled.linear + F @ w, constant=0.0)
        result = sor(
            F / np.sqrt(rho),
            round_terms,
            relaxation=relaxation,
            tol=inner,
            start=a,
            max_sweeps=max(1, min(2_000, max_sweeps - sweeps)),
            random_state=random_state,
            time_limit=None if time_limit is None else max(deadline - time.monotonic(), 0.0),
        )
        sweeps += result.sweeps
        a, w = result.a, w + F.T @ result.a / rho
        now = _score(F, scaled, a, w, sweeps, tol)
        # a round whose own solve stalled is at the rounding of the data: a few of those settle it
        patience = _IDLE_ROUNDS if result.status != "stalled" else _IDLE_ROUNDS // 5
        idle = 0 if now.gap < 0.9 * best.gap else idle + 1
        if now.gap < best.gap or not np.isfinite(best.gap):
            best = now
        late = time.monotonic() > deadline
        if best.converged or late or idle >= patience or sweeps >= max_sweeps:
            status = "converged" if best.converged else "time limit" if late else "stalled" if idle else status
            break
        inner, rho = max(inner / 4, 1e-12), rho / 1.2
    z = np.linalg.solve(r, best.w) / scale
    return SORResult(
        best.a * size, z, best.primal, best.dual, best.gap, best.relative_gap, sweeps, best.converged, status
    )


_ROUNDS = 200
_IDLE_ROUNDS = 20  # rounds without a tenth of progress before the loop is called stalled


def _score(F: Array, terms: Terms, a: Array, w: Array, sweeps: int, tol: float) -> SORResult:
    """Score a pair after making the multiplier feasible: project on ``F'a = 0``, then shrink into the box."""
    flat = a - F @ (F.T @ a)
    flat -= F @ (F.T @ flat)
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.where(flat > 0, flat / terms.upper, np.where(flat < 0, flat / terms.lower, 0.0))
    flat = flat / max(1.0, float(excess.max(initial=0.0)))
    primal = float(terms.phi(F @ w).sum()) - terms.constant
    dual = -terms.h(flat)
    gap = max(primal - dual, 0.0)
    top = max(abs(primal), abs(dual))
    relative = gap / top if top > 0 else 0.0
    return SORResult(flat, w.copy(), primal, dual, gap, relative, sweeps, relative <= tol, "")
