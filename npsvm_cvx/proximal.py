"""A linear program's dual by interior points and, where they do not settle it, by proximal rounds around SOR.

Arrays in, arrays out.  Knows no model.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .interior import Budget, interior_point
from .newton import LARGEST_SYSTEM
from .problem import is_sparse, scaled_rows
from .sor import SORResult, sor
from .terms import Array, Terms


def proximal_point(
    G: Any,
    terms: Terms,
    *,
    relaxation: float = 1.0,
    tol: float = 1e-8,
    max_sweeps: int = 100_000,
    time_limit: float | None = None,
    random_state: int = 0,
) -> SORResult:
    r"""Maximise ``-sum h_i(a_i)`` subject to ``G'a = 0`` and the box: a linear program's dual, ended on a vertex.

    Its primal is :math:`\min_z \sum_i \phi_i(g_i^\top z)`.  :func:`npsvm_cvx.interior.interior_point` solves nearly all
    such programs.  From where it ends, each of the rounds that follow adds
    :math:`\tfrac{\rho}{2}|z - z_\mathrm{prev}|^2_M`, which makes the round's dual the problem of :func:`sor`; the
    rounds end at an exact solution (Rockafellar 1976).  ``M = G' diag(s)^2 G`` with s the boxes' sizes: each row weighs
    what its multiplier can, so that the rounds needed do not depend on the ratios of C1, C2 and one.

    Parameters
    ----------
    G : (n, d) array, plain or CSR
        Rows, of full column rank.  Sparse rows stay so, and are for the interior points alone.
    terms : Terms
        Curvature zero and boxes with zero inside (or nothing else), so that a multiplier can be made feasible exactly
        by shrinking it.
    relaxation : float in (0, 2)
        SOR's.
    tol : float
        Stop when ``gap <= tol * max(|primal|, |dual|)``.
    max_sweeps : int
        Interior steps and SOR sweeps together.
    time_limit : float, optional
        Seconds; looked at between steps.
    random_state : int
        Seed of SOR's order of samples.

    Returns
    -------
    SORResult
        ``w`` is the plane z itself; ``a`` satisfies ``G'a = 0`` to rounding.

    Raises
    ------
    ValueError
        As :func:`sor`; and where zero is not inside a box or a curvature is positive.

    Examples
    --------
    The median of 1, 2 and 9: ``min |z - 1| + |z - 2| + |z - 9|``.

    >>> terms = Terms.of(3, np.array([-1.0, -2.0, -9.0]), 0.0, -1.0, 1.0)
    >>> result = proximal_point(np.ones((3, 1)), terms)
    >>> float(result.w[0].round(12)), round(result.primal, 12), result.status
    (2.0, 8.0, 'converged')
    """
    if not 0 < relaxation < 2:
        raise ValueError(f"relaxation={relaxation!r} must lie in (0, 2).")
    if not tol >= 0:
        raise ValueError(f"tol={tol!r} must be nonnegative.")
    rows, scaled, size, scale = _scaled(G, terms)
    deadline = np.inf if time_limit is None else time.monotonic() + time_limit
    budget = Budget(max_sweeps, deadline)

    best = _score(rows, scaled, np.zeros(rows.shape[0]), np.zeros(rows.shape[1]), tol)
    start, room = None, _room(rows, scaled)
    for box in (scaled._replace(lower=scaled.lower * (1 - room), upper=scaled.upper * (1 - room)), scaled):
        if best.converged or (rows.shape[1] > LARGEST_SYSTEM and not is_sparse(rows)):
            break
        start = interior_point(rows, box, budget) or start
        if start is not None and start.balanced:
            best = _better(best, _score(rows, scaled, start.a, start.z, tol))
        if best.gap > 10 * float(room @ abs(rows @ best.w)):
            break  # else it may be the room left for rounding that the tolerance does not allow
    status = "stalled"
    if not best.converged and budget.left and best.relative_gap > _ROUNDING and not is_sparse(rows):
        a, z = (best.a, best.w) if start is None else (start.a, start.z)
        found, status = _rounds(rows, scaled, a, z, budget, relaxation=relaxation, tol=tol, random_state=random_state)
        best = _better(best, found)
    elif not budget.left:
        status = "time limit" if time.monotonic() > deadline else "iteration limit"
    best = _as_returned(replace(best, w=best.w / scale), G, terms, tol)
    return replace(
        best,
        a=np.clip(best.a * size, terms.lower, terms.upper),
        sweeps=budget.spent,
        status="converged" if best.converged else status,
    )


def _as_returned(best: SORResult, G: Any, terms: Terms, tol: float) -> SORResult:
    """Return the result scored at its plane as it is; at the plane of zeros where dependent columns left it worse."""
    plane = min((best.w, np.zeros_like(best.w)), key=lambda z: float(terms.phi(G @ z).sum()))
    primal = float(terms.phi(G @ plane).sum()) - terms.constant
    gap, top = max(primal - best.dual, 0.0), max(abs(primal), abs(best.dual))
    relative = gap / top if top > 0 else 0.0
    return replace(best, w=plane, primal=primal, gap=gap, relative_gap=relative, converged=relative <= tol)


_ROUNDING = 1e-14  # a relative gap that no round lowers


def _scaled(G: Any, terms: Terms) -> tuple[Any, Terms, Array, Array]:
    """Return rows and terms with boxes of size one and columns of norm one, and the sizes of both; check them."""
    rows = G if is_sparse(G) else np.asarray(G, dtype=float)
    holds = ((terms.lower < 0) & (terms.upper > 0)) | ((terms.lower == 0) & (terms.upper == 0))
    if (terms.curvature != 0).any() or not holds.all():
        raise ValueError("the proximal loop needs zero curvature and boxes with zero inside.")
    if not (np.isfinite(terms.lower).all() and np.isfinite(terms.upper).all()):
        raise ValueError("the proximal loop needs finite boxes.")
    size = np.maximum(-terms.lower, terms.upper)
    unit = np.where(size > 0, size, 1.0)
    scaled = Terms(terms.linear * size, terms.curvature, terms.lower / unit, terms.upper / unit, terms.constant)
    rows = scaled_rows(rows, size)
    scale = np.sqrt(rows.multiply(rows).sum(axis=0) if is_sparse(rows) else np.einsum("ij,ij->j", rows, rows))
    if not np.isfinite(scale).all() or (scale == 0).any():
        raise ValueError("the rows must be of a size whose squares are finite, with no column of zeros.")
    if is_sparse(rows):
        rows = scaled_rows(rows.T, 1 / scale).T.tocsr()
    else:
        rows *= 1 / scale
    return rows, scaled, size, scale


def _room(rows: Any, terms: Terms) -> Array:
    """Return, by row, the part of its box that what ``G'a`` rounds to may fill.

    A row of one entry without cost can take up the rounding of its column, by itself and at once.  With its multiplier
    at the very bound it could not: whoever recomputes it from the others, as the certificate does, would have to shrink
    them all.
    """
    n = rows.shape[0]
    room = np.zeros(n)
    alone, column, entry = _single_entries(rows, terms.linear == 0)
    # the bound of a dot product, and some more for what its computation is really off by
    rounding = (1.1 * n + 20) * np.finfo(float).eps / 2 * (np.ones(n) @ abs(rows))
    room[alone] = np.minimum(rounding[column] / np.abs(entry), 0.5)
    return room


def _single_entries(rows: Any, asked: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    """Return which of the rows asked for have a single entry, in which column, and the entry."""
    if is_sparse(rows):
        rows.eliminate_zeros()
        alone = np.flatnonzero(asked & (np.diff(rows.indptr) == 1))
        at = rows.indptr[alone]
        return alone, rows.indices[at], rows.data[at]
    alone = np.flatnonzero(asked & ((rows[:, 0] == 0) | (rows[:, -1] == 0)))  # soon told of most rows
    alone = alone[np.count_nonzero(rows[alone], axis=1) == 1]
    column = np.argmax(np.abs(rows[alone]), axis=1)
    return alone, column, rows[alone, column]


def _score(rows: Any, terms: Terms, a: Array, z: Array, tol: float) -> SORResult:
    """Score a pair whose multipliers satisfy the equation, shrinking them into their boxes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.where(a > 0, a / terms.upper, np.where(a < 0, a / terms.lower, 0.0))
    flat = a / max(1.0, float(excess.max(initial=0.0)))
    primal = float(terms.phi(rows @ z).sum()) - terms.constant
    dual = -terms.h(flat)
    gap = max(primal - dual, 0.0)
    top = max(abs(primal), abs(dual))
    relative = gap / top if top > 0 else 0.0
    return SORResult(flat, z, primal, dual, gap, relative, 0, relative <= tol, "")


def _better(one: SORResult, two: SORResult) -> SORResult:
    return two if two.gap <= one.gap or not np.isfinite(one.gap) else one


def _rounds(
    rows: Array,
    terms: Terms,
    a: Array,
    z: Array,
    budget: Budget,
    *,
    relaxation: float,
    tol: float,
    random_state: int,
) -> tuple[SORResult, str]:
    """Return where proximal rounds from a pair end, and how."""
    F, r = np.linalg.qr(rows)
    w = r @ z

    def score(a: Array, w: Array) -> SORResult:
        flat = a - F @ (F.T @ a)
        return _score(rows, terms, flat - F @ (F.T @ flat), np.linalg.solve(r, w), tol)

    best = score(np.zeros_like(a), np.zeros_like(w))  # so that progress is the rounds' own
    rho, inner = 0.1 * float(np.sqrt(F.shape[0] / F.shape[1])), 1e-3
    idle = 0
    for _ in range(_ROUNDS):
        result = sor(
            F / np.sqrt(rho),
            terms._replace(linear=terms.linear + F @ w, constant=0.0),
            relaxation=relaxation,
            tol=inner,
            start=a,
            max_sweeps=max(1, min(2_000, budget.left)),
            random_state=random_state,
            time_limit=None if np.isinf(budget.deadline) else max(budget.deadline - time.monotonic(), 0.0),
        )
        budget.spent += result.sweeps
        a, w = result.a, w + F.T @ result.a / rho
        now = score(a, w)
        # a round whose own solve stalled is at the rounding of the data: a few of those settle it
        patience = _IDLE_ROUNDS if result.status != "stalled" else _IDLE_ROUNDS // 5
        idle = 0 if now.gap < 0.9 * best.gap else idle + 1
        best = _better(best, now)
        late = time.monotonic() > budget.deadline
        if best.converged or late or idle >= patience or not budget.left:
            return best, "time limit" if late else "stalled" if idle else "iteration limit"
        inner, rho = max(inner / 4, 1e-12), rho / 1.2
    return best, "iteration limit"


_ROUNDS = 200
_IDLE_ROUNDS = 20  # rounds without a tenth of progress before the loop is called stalled
