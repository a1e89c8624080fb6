r"""Successive overrelaxation on whitened rows: arrays in, arrays out.  Knows no model; imports nothing from above.

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
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

Array = NDArray[np.float64]
_Function = TypeVar("_Function", bound=Callable[..., Any])

# reassociation lets the dot products use vector registers; NaN and infinity keep their meaning
_FASTMATH = {"reassoc", "contract", "nsz"}


def _jit(function: _Function) -> _Function:
    """Compile on first call; keep the result on disk where there is a place for it, and do without where not."""
    try:
        return njit(cache=True, fastmath=_FASTMATH, nogil=True)(function)
    except RuntimeError:  # no writable cache folder, or no source file (a frozen or zipped install)
        return njit(fastmath=_FASTMATH, nogil=True)(function)


class Terms(NamedTuple):
    """``h_i``, four numbers a sample, and the constant that makes the dual value the model's."""

    linear: Array
    curvature: Array
    lower: Array
    upper: Array
    constant: float = 0.0

    @classmethod
    def of(
        cls,
        n: int,
        linear: float | Array,
        curvature: float | Array = 0.0,
        lower: float | Array = -np.inf,
        upper: float | Array = np.inf,
        constant: float = 0.0,
    ) -> Terms:
        """Return the terms of n samples, scalars standing for every sample; raise ValueError for impossible ones."""
        rows = [np.array(np.broadcast_to(np.asarray(x, float), (n,))) for x in (linear, curvature, lower, upper)]
        terms = cls(rows[0], rows[1], rows[2], rows[3], float(constant))
        if np.isnan(np.concatenate([*rows, [constant]])).any():
            raise ValueError("linear, curvature, lower, upper and constant must not be NaN.")
        if not (np.isfinite(terms.linear).all() and np.isfinite(terms.curvature).all()):
            raise ValueError("linear and curvature must be finite.")
        if (terms.curvature < 0).any():
            raise ValueError("curvature must be nonnegative: the dual would not be concave.")
        if (terms.lower > terms.upper).any() or (terms.lower == np.inf).any() or (terms.upper == -np.inf).any():
            raise ValueError("lower must not exceed upper.")
        return terms

    def conjugate_point(self, t: Array) -> Array:
        """Return the a that attains ``phi_i(t_i)`` (either end where every a does; infinite where nothing does)."""
        slope = -(t + self.linear)
        with np.errstate(divide="ignore", invalid="ignore"):
            flat = np.where(slope > 0, self.upper, np.where(slope < 0, self.lower, 0.0))
            free = np.where(self.curvature > 0, slope / self.curvature, flat)
        return np.clip(free, self.lower, self.upper)

    def phi(self, t: Array) -> Array:
        """Return ``phi_i(t_i)`` without the constant; infinite where the supremum is."""
        best = self.conjugate_point(t)
        with np.errstate(invalid="ignore"):
            value = -(t + self.linear) * best - self.curvature * best**2 / 2
        return np.where(np.isfinite(best), value, np.inf)

    def brackets(self, a: Array, t: Array) -> Array:
        """Return ``phi_i(t_i) + h_i(a_i) + a_i t_i``, each nonnegative, computed without cancellation."""
        slope = -(t + self.linear)
        best = self.conjugate_point(t)
        with np.errstate(invalid="ignore"):
            step = best - a
            value = step * (slope - self.curvature * best) + self.curvature * step**2 / 2
        return np.where(np.isfinite(best), np.maximum(value, 0.0), np.where(slope == 0, 0.0, np.inf))

    def h(self, a: Array) -> float:
        """Return the sum of ``h_i(a_i)``, the constant included."""
        return float(self.linear @ a + self.curvature @ (a * a) / 2 + self.constant)


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


@_jit
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
    _refuse_unbounded(norms, terms)
    begin = np.zeros(n) if start is None else np.array(start, dtype=float)
    if begin.shape != (n,) or not np.isfinite(begin).all():
        raise ValueError(f"start must be {n} finite numbers.")
    a = np.clip(begin, terms.lower, terms.upper)
    w = rows.T @ a
    rng = np.random.default_rng(random_state)
    deadline = np.inf if time_limit is None else time.monotonic() + time_limit
    numbers = (terms.linear, terms.curvature, terms.lower, terms.upper)

    best = _score(rows, terms, a, w, 0, tol)
    sweeps, interval, idle, last = 0, 1, 0, best.dual
    while not best.converged and idle < _PATIENCE:
        if sweeps >= max_sweeps:
            return _ended(best, basis, sweeps, "iteration limit")
        if time.monotonic() > deadline:
            return _ended(best, basis, sweeps, "time limit")
        for _ in range(min(interval, max_sweeps - sweeps)):
            _sweep(rows, norms, *numbers, a, w, relaxation, rng.permutation(n))
            sweeps += 1
        w = rows.T @ a
        now = _score(rows, terms, a, w, sweeps, tol)
        if finish and not now.converged and sweeps > 2 and min(rows.shape) <= _LARGEST_SYSTEM:
            scale = max(abs(now.primal), abs(now.dual)) if np.isfinite(now.primal) else abs(now.dual)
            a, plane = _finish(rows, terms, a, tol * scale, deadline)
            now = _score(rows, terms, a, plane, sweeps, tol)
            w = rows.T @ a
        # sweeps alone raise the dual while the gap, which is not monotone, may not fall for long
        rising = not finish and now.dual > last + 1e-14 * abs(now.dual)
        idle, last = 0 if now.gap < 0.9 * best.gap or rising else idle + 1, now.dual
        if now.gap <= best.gap or not np.isfinite(best.gap):
            best = now
        interval = min(interval + 1, 25)
    return _ended(best, basis, sweeps, "converged" if best.converged else "stalled")


_PATIENCE = 10  # gap evaluations without a tenth of progress before the iteration is called stalled


def _refuse_unbounded(norms: Array, terms: Terms) -> None:
    flat = (norms + terms.curvature) == 0
    up = flat & (terms.linear < 0) & ~np.isfinite(terms.upper)
    down = flat & (terms.linear > 0) & ~np.isfinite(terms.lower)
    if (up | down).any():
        raise ValueError(
            f"the dual is unbounded: row {int(np.argmax(up | down))} of F is zero and its multiplier has no bound, "
            "so no plane meets that margin."
        )


def _score(rows: Array, terms: Terms, a: Array, w: Array, sweeps: int, tol: float) -> SORResult:
    image = rows.T @ a
    gap = _gap(rows, terms, a, w, image)
    dual = -float(image @ image) / 2 - terms.h(a)
    primal = dual + gap
    scale = max(abs(primal), abs(dual))
    relative = gap / scale if scale > 0 and np.isfinite(gap) else (0.0 if gap == 0 else np.inf)
    return SORResult(a.copy(), w.copy(), primal, dual, gap, relative, sweeps, relative <= tol, "")


def _gap(rows: Array, terms: Terms, a: Array, w: Array, image: Array) -> float:
    """Return primal(w) - dual(a): the brackets, and ``|F'a - w|^2 / 2`` where w is not F'a."""
    apart = image - w
    return float(terms.brackets(a, rows @ w).sum() + apart @ apart / 2)


def _ended(result: SORResult, basis: Array | None, sweeps: int, status: str) -> SORResult:
    w = result.w if basis is None else basis @ result.w
    return replace(result, w=w, sweeps=sweeps, status=status)


_LARGEST_SYSTEM = 3000  # columns beyond which one dense Newton step costs more than many sweeps


def _finish(rows: Array, terms: Terms, a: Array, target: float, deadline: float) -> tuple[Array, Array]:
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
        gap = _gap(rows, terms, a, w, rows.T @ a)
        polished, polished_gap = _polish(rows, terms, a)
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


def _polish(rows: Array, terms: Terms, a: Array) -> tuple[Array, float]:
    """Put the free multipliers where the gradient vanishes, as long as that lowers the gap; return a and its gap.

    A round reads multipliers off margins divided by delta; this reads margins off multipliers, whose rounding a small
    delta does not magnify.
    """
    gap = float(terms.brackets(a, rows @ (rows.T @ a)).sum())
    for _ in range(3):
        free = (a > terms.lower) & (a < terms.upper)
        count = int(free.sum())
        if not count or count > _LARGEST_SYSTEM:
            break
        slope = (rows[free] @ (rows.T @ a)) + terms.linear[free] + terms.curvature[free] * a[free]
        step = np.zeros_like(a)
        step[free] = _stationary(rows[free], terms.curvature[free], slope)
        moved = np.clip(a + step, terms.lower, terms.upper)
        then = float(terms.brackets(moved, rows @ (rows.T @ moved)).sum())
        if not then < gap:
            break
        a, gap = moved, then
    return a, gap


def _stationary(free: Array, curvature: Array, slope: Array) -> Array:
    """Return p with ``(F_J F_J' + D) p = -slope``, of least norm, without forming the product."""
    n, d = free.shape
    if (curvature > 0).any():
        free = np.hstack([free, np.diag(np.sqrt(curvature))])
        d += n
    if n <= d:
        r = np.linalg.qr(free.T, mode="r")
        pivots = np.abs(np.diag(r))
        if pivots.min() > 1e-13 * pivots.max():
            return -np.asarray(solve_triangular(r, solve_triangular(r, slope, trans="T")))
    inner = np.linalg.lstsq(free, -slope, rcond=1e-13)[0]
    return np.asarray(np.linalg.lstsq(free.T, inner, rcond=1e-13)[0])


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
    if slope(1.0) <= 0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return high if low == 0.0 else low


def _solve_newton(free: Array, weight: Array, gradient: Array) -> Array:
    """Solve ``(I + F_J' W F_J) p = gradient`` on the smaller side."""
    n, d = free.shape
    scaled = free * np.sqrt(weight)[:, None]
    if n >= d:
        system = scaled.T @ scaled
        system[np.diag_indices(d)] += 1.0
        return np.asarray(cho_solve(cho_factor(system, check_finite=False), gradient, check_finite=False))
    system = scaled @ scaled.T
    system[np.diag_indices(n)] += 1.0
    inner = cho_solve(cho_factor(system, check_finite=False), scaled @ gradient, check_finite=False)
    return np.asarray(gradient - scaled.T @ inner)


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
    best, sweeps, idle, status = _score_lp(F, scaled, a, w, 0, tol), 0, 0, "iteration limit"
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
        now = _score_lp(F, scaled, a, w, sweeps, tol)
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


def _score_lp(F: Array, terms: Terms, a: Array, w: Array, sweeps: int, tol: float) -> SORResult:
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
