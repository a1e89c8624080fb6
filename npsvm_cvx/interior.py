r"""A linear program with boxes by interior points: arrays in, arrays out.  Knows no model.

.. math::
    \max_a\; -c^\top a \quad\text{s.t.}\quad G^\top a = 0,\; lower \le a \le upper
    \qquad\text{and its primal}\qquad
    \min_z\; \sum_i \max(-lower_i t_i,\, -upper_i t_i),\quad t = c + G z

It is the program of 1-norm and quantile regression: many rows, few columns.  A step costs one ``G' D G`` of size d x d.
Rows that are plainly on one side of their kink are held there and leave the work to the others, and the path is left
for the vertex it leads to as soon as the free multipliers are told from those at a bound.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from .problem import densified, is_sparse, joined, scaled_rows
from .terms import Array, Terms


class Budget:
    """Steps and time that may be spent; ``spent`` counts the steps."""

    def __init__(self, steps: int, deadline: float = np.inf) -> None:
        self.steps = steps
        self.deadline = deadline
        self.spent = 0

    @property
    def left(self) -> int:
        """Steps left; none after the deadline."""
        return 0 if time.monotonic() > self.deadline else max(self.steps - self.spent, 0)


class Pair(NamedTuple):
    """Multipliers in their boxes, a plane, and the gap of the two; ``balanced`` where ``G'a = 0`` to rounding."""

    a: Array
    z: Array
    gap: float
    balanced: bool


def interior_point(G: Any, terms: Terms, budget: Budget) -> Pair | None:
    r"""Maximise ``-c'a`` subject to ``G'a = 0`` and the boxes.

    Parameters
    ----------
    G : (n, d) array, plain or CSR
        Rows, of full column rank; columns and boxes are best of similar sizes.
    terms : Terms
        Curvature zero and finite boxes; one without width holds a multiplier that takes no part.
    budget : Budget
        Steps and time; a step more is counted as spent for each one made.

    Returns
    -------
    Pair or None
        The best pair found, which is optimal to rounding where the rows at their kinks can be told from the others;
        None where no pair was found within the budget.

    Notes
    -----
    The Frisch-Newton method of Portnoy and Koenker (1997), with Mehrotra's (1992) predictor and corrector.  Their rows
    in "globs" are here held while the iteration goes on; what was held wrongly shows in the gap, and then the path is
    followed again with all rows.
    """
    wide = terms.upper > terms.lower
    rows = G if wide.all() else G[wide]
    own = terms if wide.all() else terms.at(wide)
    n, d = rows.shape
    if n < d:
        return None
    try:
        found = _follow(rows, own, budget, holding=n > max(_MANY, 10 * d))
    except LinAlgError:  # a column that exactly depends on others
        return None
    if found is None or wide.all():
        return found
    a = terms.lower.copy()
    a[wide] = found.a
    return found._replace(a=a)


_MANY = 1000  # with fewer rows, holding some saves less than it costs


def _follow(G: Any, terms: Terms, budget: Budget, *, holding: bool) -> Pair | None:
    """Follow the central path to a vertex without gap; where none is found, return the pair with the least."""
    path = _CentralPath(G, terms)
    best: Pair | None = None
    tried = _CLEAR
    for _ in range(_STEPS):
        if not budget.left or not path.step():
            break
        budget.spent += 1
        if holding:
            path.hold()
        relative = path.gap / path.scale
        if relative <= tried:
            tried = relative / 10
            part = path.vertex()
            if best is None or part.gap < best.gap:  # of all rows the gap is no less
                pair = path.whole(part)
                best = pair if best is None or pair.gap < best.gap else best
                if best.gap <= _EXACT * path.scale:
                    return best
                if part.gap <= _EXACT * path.scale:  # the solution, were it not for rows held
                    path.release(pair)
                    tried = _CLEAR
                    continue
        if relative <= _END:
            break
    if path.holds_some and budget.left:
        return _follow(G, terms, budget, holding=False)
    if path.gap <= _CLEAR * path.scale:
        path.balance()
        end = path.whole(path.point())
        best = end if best is None or end.gap < best.gap else best
    return best


_STEPS = 80
_CLEAR = 1e-3  # relative gap from which on it is worth asking which multipliers are free
_EXACT = 1e-13  # relative gap that is but rounding
_END = 1e-15  # relative gap of the path beyond which it does not become clearer
_TINY = np.finfo(float).tiny


class _CentralPath:
    """The iterate, and the rows still at work.

    Of the rows at work, ``x`` and ``y`` are the distances of a to its bounds and ``p`` and ``q`` their multipliers, all
    positive; ``t = c + F w = p - q`` always, with ``G = F U`` and ``w = U z``, and ``F'a = right`` in the end.  ``own``
    are their rows of G, ``weight`` is what the rows held add to ``G'a``, ``reach`` the size of its sums.
    """

    def __init__(self, G: Any, terms: Terms) -> None:
        self.G, self.terms = G, terms
        self.n = G.shape[0]
        self.at_work = np.arange(self.n)
        self.held = np.zeros(self.n)  # the multipliers of rows not at work
        self.weight = np.zeros(G.shape[1])  # held @ G
        self.reach = np.ones(self.n) @ abs(G)
        self.rows, self.U = _whiten(G)
        self._begin(-(self.rows.T @ terms.linear))  # the plane nearest the kinks

    def _begin(self, w: Array) -> None:
        """Put the multipliers at work in the middle of their boxes, and the plane where it is said."""
        self.own, self.own_terms = self.G, self.terms
        if self.holds_some:
            self.own, self.own_terms = self.G[self.at_work], self.terms.at(self.at_work)
        self.right = -solve_triangular(self.U, self.weight, trans="T", check_finite=False)
        lower, upper = self.own_terms.lower, self.own_terms.upper
        self.linear, self.width = self.own_terms.linear, upper - lower
        self.a, self.x, self.y = (lower + upper) / 2, self.width / 2, self.width / 2
        self.w, self.t = w, self.linear + self.rows @ w
        start = float(np.mean(0.1 * np.abs(self.t) + 0.001 * np.abs(self.linear))) + _TINY
        self.p, self.q = np.maximum(self.t, 0.0) + start, np.maximum(-self.t, 0.0) + start
        self._measure()

    @property
    def holds_some(self) -> bool:
        return len(self.at_work) < self.n

    def _measure(self) -> None:
        self.gap = float(self.x @ self.p + self.y @ self.q)
        if not self.holds_some:  # else these stay what they were of all rows
            size = np.abs(self.t) + _EXACT * np.abs(self.linear)  # the margins of an exact fit are but rounding
            self.scale, self.unit = float(size @ self.width) / 2 + _TINY, float(np.mean(size)) + _TINY

    @np.errstate(all="ignore")  # what is not finite ends the path
    def step(self) -> bool:
        """Make a step; return False, with the iterate as it was, where none leads on."""
        rows, t, x, y, p, q = self.rows, self.t, self.x, self.y, self.p, self.q
        error = self.right - rows.T @ self.a
        u, v = p / x, q / y
        theta = 1.0 / (u + v)
        normal = _factor(rows, theta)
        if normal is None:
            return False
        # predictor: straight to the solution
        dw = -_solve(normal, rows.T @ (theta * t) + error)
        da = -theta * (t + rows @ dw)
        dp, dq = -p - u * da, v * da - q
        one, two = _longest(x, da, y, -da), _longest(p, dp, q, dq)
        ahead = float((x + one * da) @ (p + two * dp) + (y - one * da) @ (q + two * dq))
        centre = (ahead / self.gap) ** 3 * self.gap / (2 * len(t))
        # corrector: towards the centre, with the products of steps that the predictor left out
        low, high = (centre - da * dp) / x, (centre + da * dq) / y
        pull = low - high - t
        dw = _solve(normal, rows.T @ (theta * pull) - error)
        da = theta * (pull - rows @ dw)
        dp, dq = low - p - u * da, high - q + v * da
        one, two = _BACK * _longest(x, da, y, -da), _BACK * _longest(p, dp, q, dq)
        ends = float((x + one * da) @ (p + two * dp) + (y - one * da) @ (q + two * dq))
        if not (max(one, two) > _SHORTEST and np.isfinite(ends)):
            return False
        self.a, self.x, self.y = self.a + one * da, x + one * da, y - one * da
        self.w, self.p, self.q = self.w + two * dw, p + two * dp, q + two * dq
        self.t = self.linear + rows @ self.w
        self._measure()
        return True

    def _free(self, doubt: float) -> NDArray[np.bool_]:
        """Return which multipliers are free rather than at a bound, the doubtful counted as free."""
        return np.minimum(self.x, self.y) * (doubt * self.unit) > np.maximum(self.p, self.q) * self.width

    def hold(self) -> None:
        """Hold the multipliers plainly at a bound there, once that takes half of the rows from the work."""
        free = self._free(_DOUBT)
        count = int(free.sum())
        if not 4 * self.G.shape[1] <= count <= len(free) / 2:
            return
        index = self.at_work[~free]
        self.held[index] = np.where(self.p > self.q, self.own_terms.lower, self.own_terms.upper)[~free]
        self.weight = self.held @ self.G
        self.right = -solve_triangular(self.U, self.weight, trans="T", check_finite=False)
        self.own_terms = self.own_terms.at(free)
        for name in ("at_work", "own", "rows", "linear", "width", "a", "x", "y", "t", "p", "q"):
            setattr(self, name, getattr(self, name)[free])
        self._measure()

    def release(self, pair: Pair) -> None:
        """Begin anew at a plane, the rows held on the wrong side of its kinks at work again."""
        idle = np.ones(self.n, dtype=bool)
        idle[self.at_work] = False
        wrong = np.flatnonzero(idle & (self.terms.brackets(self.held, self.G @ pair.z) > 0))
        self.weight = self.weight - self.held[wrong] @ self.G[wrong]
        self.held[wrong] = 0.0
        back = self.G[wrong]
        if not is_sparse(back):
            back = solve_triangular(self.U, back.T, trans="T", check_finite=False).T
        self.at_work, self.rows = np.append(self.at_work, wrong), joined([self.rows, back])
        self._begin(self.U @ pair.z)

    def balance(self) -> None:
        """Refine the multipliers' equation, which steps leave to the rounding of rows that are not whitened."""
        theta = 1.0 / (self.p / self.x + self.q / self.y)
        normal = _factor(self.rows, theta)
        for _ in range(_REFINEMENTS):
            if normal is None:
                return
            step = theta * (self.rows @ _solve(normal, self.right - self.rows.T @ self.a))
            if not np.isfinite(step).all():
                return
            self.a = self.a + step

    def point(self) -> Pair:
        """Return the pair where the path is, of the rows at work."""
        return Pair(self.a, solve_triangular(self.U, self.w, check_finite=False), self.gap, False)

    def vertex(self) -> Pair:
        """Return the pair with the rows of free multipliers on their kink and the other multipliers at a bound.

        The plane and the free multipliers follow from linear equations.  Where these have many solutions or none, the
        nearest plane and multipliers are taken, each multiplier moving in proportion to its room.  All of it for the
        rows at work alone.
        """
        free = self._free(1.0)
        a = np.where(self.p > self.q, self.own_terms.lower, self.own_terms.upper)
        a[free] = self.a[free]
        z = self.point().z
        if is_sparse(self.own) and free.sum() > _MANY_FREE * len(z):
            return self.point()._replace(gap=np.inf)  # not told apart, and their rows are not to be written out
        if free.any():
            room = np.minimum(self.x, self.y)[free]
            G, linear = densified(self.own[free]), self.linear[free]
            basis = _Basis(G * room[:, None])
            for _ in range(_REFINEMENTS):
                z = z - basis.least(room * (linear + G @ z))
                a[free] -= room * basis.balance(self.weight + a @ self.own)
        a = np.clip(a, self.own_terms.lower, self.own_terms.upper)
        return self._pair(a, z, self.own_terms.brackets(a, self.own @ z), self.weight + a @ self.own)

    def whole(self, part: Pair) -> Pair:
        """Return the pair of all rows, its gap that of all."""
        a = self.held.copy()
        a[self.at_work] = part.a
        return self._pair(a, part.z, self.terms.brackets(a, self.G @ part.z), a @ self.G)

    def _pair(self, a: Array, z: Array, brackets: Array, left: Array) -> Pair:
        gap = float(brackets.sum() + np.abs(z) @ np.abs(left))
        part = float(np.max(np.abs(left) / self.reach))
        if part > _ROUNDING:  # where the plane is zero the gap would not show it
            gap += part * self.scale
        return Pair(a, z, gap if np.isfinite(gap) else np.inf, part <= _ROUNDING)


_ROUNDING = 1e-13  # of the sums in G'a
_BACK = 0.9995  # how near the boundary a step ends
_SHORTEST = 1e-6  # shorter steps lead nowhere: only rounding is left
_DOUBT = 10.0  # on data sets this was seldom too little, and what it holds wrongly is released in the end
_REFINEMENTS = 3
_MANY_FREE = 8  # free multipliers a dimension, at most, with sparse rows


def _longest(x: Array, dx: Array, y: Array, dy: Array) -> float:
    """Return the longest step, one at most, that leaves both nonnegative."""
    return 1.0 / max(1.0, -float(np.min(dx / x)), -float(np.min(dy / y)))


def _factor(rows: Any, theta: Array) -> Array | None:
    """Return the Cholesky factor of ``F' diag(theta) F``, upper; None where the product is not positive."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = scaled_rows(rows, np.sqrt(theta))
        system = densified(scaled.T @ scaled)
    if not np.isfinite(system).all():
        return None
    system[np.diag_indices_from(system)] *= 1 + _SHIFT
    try:
        return np.asarray(cholesky(system, overwrite_a=True, check_finite=False))
    except LinAlgError:
        return None


_SHIFT = 1e-14


def _solve(factor: Array, right: Array) -> Array:
    """Return ``(U'U)^-1 right``."""
    half = solve_triangular(factor, right, trans="T", check_finite=False)
    return np.asarray(solve_triangular(factor, half, check_finite=False))


def _whiten(G: Any) -> tuple[Any, Array]:
    """Return rows with nearly orthonormal columns and the triangle U with ``G = F U``; sparse rows as they are."""
    if is_sparse(G):
        return G, np.eye(G.shape[1])
    U = _triangle(G)
    if U is None:
        q, r = np.linalg.qr(G)
        return q, r
    return G @ solve_triangular(U, np.eye(len(U)), check_finite=False), U


def _triangle(B: Array) -> Array | None:
    """Return the triangle of the QR factorisation from the product ``B'B``; None where that would not do.

    Of many rows it is much quicker than Householder's reflections, and good enough for a start or for refinement where
    no column nearly depends on others.
    """
    if B.size < _LITTLE or B.shape[0] < B.shape[1]:
        return None
    factor = _factor(B, np.ones(len(B)))
    if factor is None:
        return None
    pivots = np.abs(np.diag(factor)) / np.sqrt(np.einsum("ij,ij->j", factor, factor))
    return factor if pivots.min() > _COLLINEAR else None


_COLLINEAR = 1e-6
_LITTLE = 20_000  # entries of a matrix so small that reflections cost nothing


class _Basis:
    """Least squares with a matrix B and with its transpose, of least norm, from one factorisation.

    By the seminormal equations, which are as accurate as the QR factorisation once their residual is fed back
    (Bjorck 1987).
    """

    def __init__(self, B: Array) -> None:
        self.B = B
        self.tall = B.shape[0] >= B.shape[1]
        self.r = _triangle(B)
        if self.r is None:
            r: Array = np.asarray(np.linalg.qr(B if self.tall else B.T, mode="r"))
            pivots = np.abs(np.diag(r))
            self.r = r if pivots.min() > _DEPENDENT * pivots.max() else None

    def least(self, right: Array) -> Array:
        """Return x with ``|B x - right|`` least."""
        if self.r is None:
            return np.asarray(np.linalg.lstsq(self.B, right, rcond=_DEPENDENT)[0])
        return _solve(self.r, self.B.T @ right) if self.tall else self.B.T @ _solve(self.r, right)

    def balance(self, right: Array) -> Array:
        """Return y with ``|B'y - right|`` least."""
        if self.r is None:
            return np.asarray(np.linalg.lstsq(self.B.T, right, rcond=_DEPENDENT)[0])
        return self.B @ _solve(self.r, right) if self.tall else _solve(self.r, self.B @ right)


_DEPENDENT = 1e-11
