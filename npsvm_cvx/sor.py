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
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .kernels import descend, sweep
from .newton import LARGEST_SYSTEM, polish, primal_dual_gap
from .newton import finish as newton_finish
from .problem import Stack
from .terms import Array, Terms


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
    if best.converged:
        return _ended(best, basis, sweeps, "converged")
    active, before = np.arange(n), rows @ w
    while not best.converged and idle < (_PATIENCE if sweeps < 2 * _SWEEPS_FIRST or not finish else _FINISHED):
        if sweeps >= max_sweeps:
            return _ended(best, basis, sweeps, "iteration limit")
        if time.monotonic() > deadline:
            return _ended(best, basis, sweeps, "time limit")
        for _ in range(min(interval, max_sweeps - sweeps)):
            sweep(rows, norms, *numbers, a, w, relaxation, rng.permutation(active))
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


_FINISHED = 3  # such evaluations once each has Newton rounds behind it
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
    for span, part in Stack.of(rows).chunks(dense=True):
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
