r"""A proof of how near the optimum a plane is: an upper bound on the duality gap that includes all rounding.

numpy alone: no solver, no CVXPY, no compiled code, so that a certificate can be checked where it was not made.

For any plane z and any multipliers a in their domain, with ``r = R'a - M z`` and ``M = near S'S + diag(ridge)``,

.. math::
    \mathrm{primal}(z) - \mathrm{optimum} \;\le\;
    \sum_i \bigl[\phi_i(t_i) + h_i(a_i) + a_i t_i\bigr] + \sum_j \frac{r_j^2}{2\,\mathrm{ridge}_j}, \qquad t = R z

Every bracket is nonnegative and convex in t.  Floating point gives t and r only to a bound, which is the usual one of
dot products, ``gamma_n |x|'|y|`` with ``gamma_n = n u / (1 - n u)`` (Higham 2002, section 3.1), whatever the order of
summation; each bracket is then bounded over the interval t lies in, every operation rounded outwards.
"""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .problem import Problem, Stack, densified, is_sparse, joined
from .terms import Array, Terms

_U = 2.0**-53
_ULP = 2.0**-52
_TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class Certificate:
    """What was proved about a plane.

    Attributes
    ----------
    gap : float
        The plane's primal value exceeds the optimum by no more than this, rounding included.
    value : float
        The primal's value at the plane, in floating point; for scale only.
    """

    gap: float
    value: float

    @property
    def relative_gap(self) -> float:
        """``gap / |value|``; infinite where there is no bound."""
        if self.gap == 0:
            return 0.0
        return self.gap / abs(self.value) if self.value and math.isfinite(self.gap) else math.inf


@dataclass(frozen=True)
class Proof:
    """Everything a certificate follows from: the data, the plane, the multipliers, and what the dual is.

    Attributes
    ----------
    S, R : arrays or Stack
        Near rows and margin rows; for a linear program, R holds G and S is empty.
    z, a : arrays
        The plane and the multipliers.
    terms : Terms
    ridge : (d,) array
    near : float or (m,) array
    free : tuple of int or None
        Of a linear program: where its identity block begins and ends.

    Examples
    --------
    >>> one = np.ones(1)
    >>> hinge = Terms(-one, 0 * one, 0 * one, one)
    >>> proof = Proof(np.zeros((1, 1)), 2 * np.ones((1, 1)), 0.5 * one, 0.25 * one, hinge, one)
    >>> Proof.from_json(proof.to_json()).check() == proof.check()
    True
    """

    S: Array | Stack
    R: Array | Stack
    z: Array
    a: Array
    terms: Terms
    ridge: Array
    near: float | Array = 1.0
    free: tuple[int, int] | None = None

    @classmethod
    def of(cls, problem: Problem, z: Array, a: Array) -> Proof:
        """Return the proof that a plane and multipliers are of a problem's gap."""
        return cls(problem.S, problem.R, z, a, problem.terms, problem.ridge, problem.near)

    def check(self) -> Certificate:
        """Return what the proof proves, computed here and now."""
        if self.free is not None:
            return certify_linear_program(
                joined(Stack.of(self.R).blocks), self.z, self.a, self.terms, slice(*self.free)
            )
        return certify(self.S, self.R, self.z, self.a, self.terms, ridge=self.ridge, near=self.near)

    def to_json(self) -> str:
        """Return the proof and its claim as JSON; terms are written so that they are read back to the bit."""
        certificate = self.check()
        fields = {
            "S": Stack.of(self.S).dense(),
            "R": Stack.of(self.R).dense(),
            "z": self.z,
            "a": self.a,
            "ridge": self.ridge,
            **{name: getattr(self.terms, name) for name in ("linear", "curvature", "lower", "upper")},
        }
        return json.dumps(
            {
                "format": _FORMAT,
                "claim": {"gap": certificate.gap, "value": certificate.value},
                "near": self.near if np.ndim(self.near) == 0 else np.asarray(self.near).tolist(),
                "constant": self.terms.constant,
                "free": self.free,
                **{name: {"shape": np.shape(x), "values": np.ravel(x).tolist()} for name, x in fields.items()},
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Proof:
        """Return the proof a file holds; raise ValueError saying what is wrong with one that is none."""
        try:
            data = json.loads(text)
            if not isinstance(data, dict) or data.get("format") != _FORMAT:
                found = data.get("format") if isinstance(data, dict) else type(data).__name__
                raise ValueError(f"its format is {found!r}, not {_FORMAT!r}")
            missing = [name for name in (*_ARRAYS, "claim", "near", "constant", "free") if name not in data]
            if missing:
                raise ValueError(f"it has no {', '.join(missing)}")
            claim_of(data)
            read = {name: np.array(data[name]["values"], dtype=float).reshape(data[name]["shape"]) for name in _ARRAYS}
            near = np.array(data["near"], dtype=float)
            free = None if data["free"] is None else (int(data["free"][0]), int(data["free"][1]))
            linear, curvature, lower, upper = (read[name] for name in _ARRAYS[5:])
            proof = cls(
                read["S"],
                read["R"],
                read["z"],
                read["a"],
                Terms(linear, curvature, lower, upper, float(data["constant"])),
                read["ridge"],
                float(near) if near.ndim == 0 else near,
                free,
            )
            proof._refuse_nonsense()
            return proof
        except RecursionError:
            raise ValueError("not a certificate: it is nested too deeply") from None
        except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
            what = str(error) if isinstance(error, ValueError | OverflowError) else "a part of it has another shape"
            raise ValueError(f"not a certificate: {what}") from None

    def _refuse_nonsense(self) -> None:
        """Raise ValueError unless everything has its shape and the dual is one: concave, its boxes not empty."""
        S, R = np.shape(self.S), np.shape(self.R)
        if len(S) != 2 or len(R) != 2 or S[1] != R[1]:
            raise ValueError(f"S {S} and R {R} are no matrices of as many columns")
        wanted = {"z": (R[1],), "ridge": (R[1],), "a": (R[0],), **dict.fromkeys(_ARRAYS[5:], (R[0],))}
        for name, shape in wanted.items():
            found = np.shape(getattr(self.terms if name in _ARRAYS[5:] else self, name))
            if found != shape:
                raise ValueError(f"{name} has shape {found}, not {shape}")
        if np.ndim(self.near) and np.shape(self.near) != S[:1]:
            raise ValueError(f"near has shape {np.shape(self.near)}, not {S[:1]}")
        Terms.of(R[0], *self.terms)
        for name in ("S", "R", "z", "a", "ridge", "near"):
            if not np.isfinite(np.asarray(getattr(self, name))).all():
                raise ValueError(f"{name} is not finite")
        if not math.isfinite(self.terms.constant):
            raise ValueError("constant is not finite")
        if (self.ridge < 0).any() or np.any(np.asarray(self.near) < 0):
            raise ValueError("ridge and near must not be negative")
        if self.free is not None and not 0 <= self.free[0] <= self.free[1] <= R[0]:
            raise ValueError(f"free={self.free} is no range of R's rows")
        if self.free is not None:
            self.check()  # what a linear program must be, which the bound itself asks


def claim_of(data: dict[str, Any]) -> tuple[float, float]:
    """Return the gap and the value that a file's JSON claims; raise ValueError where it claims none."""
    try:
        gap, value = float(data["claim"]["gap"]), float(data["claim"]["value"])
    except (KeyError, TypeError, OverflowError):
        raise ValueError("its claim has no gap and value") from None
    if not (gap >= 0 and math.isfinite(value)):
        raise ValueError(f"it claims a gap of {gap} at a value of {value}")
    return gap, value


_FORMAT = "npsvm-cvx certificate 1"
_ARRAYS = ("S", "R", "z", "a", "ridge", "linear", "curvature", "lower", "upper")


def certify(
    S: Array | Stack,
    R: Array | Stack,
    z: Array,
    a: Array,
    terms: Terms,
    *,
    ridge: float | Array,
    near: float | Array = 1.0,
) -> Certificate:
    r"""Bound the gap of a plane and multipliers of a box-constrained, separable quadratic dual.

    Parameters
    ----------
    S, R : (m, d) and (l, d) arrays, or Stack
        Near rows and margin rows; read once, a few at a time.
    z : (d,) array
        The plane.
    a : (l,) array
        Multipliers; any finite terms, put into their domain first.
    terms : Terms
        ``h_i``, whose entries are taken as exact.
    ridge : float or (d,) array
        Diagonal of ``M - S' diag(near) S``.  Where it is zero the bound is finite only if r is zero there.
    near : float or (m,) array
        What each near row's square is multiplied by.

    Raises
    ------
    ValueError
        Shapes that disagree, or terms that are not finite.

    Examples
    --------
    One sample, ``max a - |f|^2 a^2 / 2`` on [0, 1] with f = 2: the optimum is a = 1/4.

    >>> import numpy as np
    >>> one = np.ones(1)
    >>> hinge = Terms(-one, 0 * one, 0 * one, one)
    >>> certify(np.zeros((1, 1)), 2 * np.ones((1, 1)), 0.5 * one, 0.25 * one, hinge, ridge=1.0).gap < 1e-15
    True
    """
    S, R = Stack.of(S), Stack.of(R)
    c = np.broadcast_to(np.asarray(ridge, dtype=float), z.shape)
    price = np.broadcast_to(np.asarray(near, dtype=float), (len(S),))
    _check(S, R, z, a, c, price)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is found at the end
        return _certified(S, R, z, a, terms, c, price)


def _certified(S: Stack, R: Stack, z: Array, a: Array, terms: Terms, c: Array, price: Array) -> Certificate:
    a = np.clip(a, terms.lower, terms.upper)
    brackets, computed, phi, Ra = 0.0, 0.0, 0.0, _Sum(len(R), len(z))
    for span, rows in R.chunks():
        size = abs(rows)  # sparse where the rows are
        part = terms.at(span)
        t, t_error = _product(rows, size, z)
        bound, plain = _brackets(part, a[span], t, t_error)
        brackets, computed = float(_up(brackets + bound)), computed + plain
        phi += float(part.phi(t).sum())
        Ra.add(rows, size, a[span], np.zeros(rows.shape[0]))
    near_value, Sy = 0.0, _Sum(len(S), len(z))
    for span, rows in S.chunks():
        size = abs(rows)  # sparse where the rows are
        y, y_error = _product(rows, size, z)
        pull = price[span] * y
        Sy.add(rows, size, pull, _up(_up(price[span] * y_error) + _up(_U * np.abs(pull)) + _TINY))
        near_value += float(pull @ y) / 2
    hold = c * z
    residual = Ra.value - Sy.value - hold
    rounding = 4 * _U * (np.abs(Ra.value) + np.abs(Sy.value) + 2 * np.abs(hold)) + 4 * _TINY
    r = _up(_up(np.abs(residual) + _up(Ra.error + rounding)) + Sy.error)
    squares = _over_ridge(r, c)
    value = near_value + float(c @ (z * z)) / 2 + phi - terms.constant
    gap = float(_up(brackets + _sum_up(squares)))
    if not math.isfinite(gap + value):  # a pass over the rows that is only needed to say whose fault it is
        _check_rows(S, R)
    entries = (len(S) + len(R)) * len(z)
    with np.errstate(divide="ignore"):
        computed += float((residual**2 / (2 * c)).sum())
    if gap > 2 * computed + _FINE * abs(value) and entries <= _SHARPENED and (c > 0).all():
        with contextlib.suppress(OverflowError, ValueError):  # sums beyond the largest float
            gap = min(gap, _sharp_gap(S.dense(), R.dense(), z, a, terms, c, price))
    return Certificate(gap, value)


_FINE = 1e-10  # relative to the value: what rounding may add to the gap before exact products are worth their time
_SHARPENED = 2**22  # entries of S and R, at most, for that: a second or so


def _sharp_gap(S: Array, R: Array, z: Array, a: Array, terms: Terms, c: Array, near: Array) -> float:
    """Bound the gap as :func:`certify` does, every sum of products exact but for its last rounding.

    A product of two floats is the float ``x y`` and its error, itself a float (Dekker 1971); ``fsum`` adds any number
    of floats with one rounding.  What is left is the rounding of z and a themselves.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        # the slope t + linear + curvature a itself, not t: at a bend t is one and the slope nothing
        slope, slope_rest = _exact_rows(R, z, terms.linear, *_exact(terms.curvature, a))
        y, y_rest = _exact_rows(S, z)
        v, v_rest = _exact(near, y)
        v_rest = v_rest + near * y_rest
        columns = np.concatenate([R.T, -S.T], axis=1)
        r, r_rest = _exact_rows(columns, np.concatenate([a, v]), -(S.T @ v_rest), *_exact(-c, z))
        # what the two small terms lost: they are a rounding of the large ones, and so a rounding of a rounding
        lost = 8 * (_gamma(len(S)) * _U + _U**2) * (np.abs(S).T @ (np.abs(v) + near * np.abs(y)))
        r_bound = _up(_up(np.abs(r) + np.abs(r_rest)) + lost + _TINY * (columns.shape[1] + 1) * 8)
        squares = _over_ridge(r_bound, c)
        unsure = _up(np.abs(slope_rest)) + 8 * (len(z) + 2) * _TINY
        brackets = _bracket_of_slope(terms, a, _down(-slope - unsure), _up(-slope + unsure))
        gap = float(_up(_sum_up(brackets) + _sum_up(squares)))
    return gap if math.isfinite(gap) else math.inf


def _over_ridge(r: Array, c: Array) -> Array:
    """Bound ``r^2 / (2 c)``, r nonnegative; infinite where there is no ridge."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.asarray(np.where(r == 0, 0.0, _up(_up(r * r) / np.maximum(_down(2 * c), 0.0))))


def _exact(x: Array, y: Array) -> tuple[Array, Array]:
    """Return ``x y`` and its rounding error, elementwise, by splitting each factor in two halves."""
    product = x * y
    (xh, xl), (yh, yl) = _halves(x), _halves(y)
    return product, xl * yl - (((product - xh * yh) - xl * yh) - xh * yl)


def _halves(x: Array) -> tuple[Array, Array]:
    big = 134217729.0 * x  # 2^27 + 1
    high = big - (big - x)
    return high, x - high


def _exact_rows(rows: Array, vector: Array, *also: Array) -> tuple[Array, Array]:
    """Return ``rows @ vector + also`` as a float and a rest; they add up to it but for a rounding of the rest."""
    found, rest = np.empty(len(rows)), np.empty(len(rows))
    step = max(1, _EXACT_CHUNK // max(1, rows.shape[1]))
    for begin in range(0, len(rows), step):
        product, error = _exact(rows[begin : begin + step], vector)
        parts = [product, error, *(each[begin : begin + step, None] for each in also)]
        for i, line in enumerate(np.concatenate(parts, axis=1).tolist(), start=begin):
            found[i] = math.fsum(line)
            line.append(-found[i])
            rest[i] = math.fsum(line)
    return found, rest


_EXACT_CHUNK = 2**16


def certify_linear_program(G: Any, z: Array, a: Array, terms: Terms, free: slice) -> Certificate:
    r"""Bound the gap of a plane and multipliers of ``max -c'a`` subject to ``G'a = 0`` and boxes that hold zero.

    Parameters
    ----------
    G : (n, d) array, plain or CSR
        Rows; those of ``free`` are a multiple of the identity, so that their multipliers can repair the equation.
    z : (d,) array
    a : (n,) array
        Multipliers, not necessarily feasible.  Those of ``free`` are recomputed from the others and all are then
        shrunk into their boxes, which keeps the equation: the repaired point is exactly feasible.
    terms : Terms
        Curvature zero; ``linear`` zero on ``free``.
    free : slice
        The rows of the identity block.
    """
    block = densified(G[free])
    scale = float(block[0, 0])
    d = G.shape[1]
    if block.shape != (d, d) or not np.array_equal(block, scale * np.eye(d)) or scale == 0:
        raise ValueError("the free rows must be a nonzero multiple of the identity.")
    if (terms.curvature != 0).any() or (terms.linear[free] != 0).any():
        raise ValueError("a linear program has no curvature, and its free multipliers no cost.")
    if (terms.lower > 0).any() or (terms.upper < 0).any() or not np.isfinite([terms.lower, terms.upper]).all():
        raise ValueError("the boxes must be finite and hold zero.")
    whole = Stack(G)
    _check(whole, whole, z, a, np.ones(d), np.ones(1))
    _check_rows(whole, whole)
    rest = np.ones(len(a), dtype=bool)
    rest[free] = False
    a = np.clip(a, terms.lower, terms.upper)
    turned = G[rest].T if is_sparse(G) else np.ascontiguousarray(G[rest].T)
    t, t_error = _product(G, abs(G), z)
    slopes = t + terms.linear, _up(t_error + _U * np.abs(t + terms.linear))
    needed = _product(turned, abs(turned), a[rest])
    gap, primal = _linear_program_gap(terms, a, scale, free, rest, slopes, needed)
    if gap > _FINE * abs(primal) and G.shape[0] * d <= _SHARPENED:
        G, turned = densified(G), densified(turned)
        with contextlib.suppress(OverflowError, ValueError), np.errstate(over="ignore", invalid="ignore"):
            slopes, needed = _with_error(_exact_rows(G, z, terms.linear)), _with_error(_exact_rows(turned, a[rest]))
            gap, primal = min((gap, primal), _linear_program_gap(terms, a, scale, free, rest, slopes, needed))
    return Certificate(max(gap, 0.0), primal - terms.constant)


def _with_error(exact: tuple[Array, Array]) -> tuple[Array, Array]:
    value, remainder = exact
    return value, _up(np.abs(remainder)) + 2.0**20 * _TINY


def _linear_program_gap(
    terms: Terms,
    a: Array,
    scale: float,
    free: slice,
    rest: NDArray[np.bool_],
    slopes: tuple[Array, Array],
    needed: tuple[Array, Array],
) -> tuple[float, float]:
    """Return a bound on the gap, and one on the primal value, from ``G z + linear`` and ``G'a`` within errors."""
    pull, error = needed
    pull, error = -pull / scale, _up(_up(error / abs(scale)) + 2 * _U * np.abs(pull / scale) + _TINY)
    high, low = _up(pull + error), _down(pull - error)
    with np.errstate(divide="ignore", invalid="ignore"):
        over = np.where(high > 0, _up(high / terms.upper[free]), 0.0)
        under = np.where(low < 0, _up(low / terms.lower[free]), 0.0)
    shrink = float(_down(1.0 / max(1.0, float(np.max([over, under], initial=0.0)))))
    slope, unsure = slopes
    ends = [_phi_up(terms, _down(slope - unsure)), _phi_up(terms, _up(slope + unsure))]
    primal = _sum_up(np.maximum(*ends))
    # the constant belongs to both values and cancels
    dual = -_sum_up(_up(terms.linear[rest] * a[rest])) * shrink
    dual = dual - abs(dual) * 2 * _U - _TINY
    gap = float(_up(np.float64(primal - dual)))
    return (gap, primal) if not math.isnan(gap) else (math.inf, primal)


def _check(S: Stack, R: Stack, z: Array, a: Array, c: Array, near: Array) -> None:
    if S.shape[1] != len(z) or R.shape[1] != len(z) or len(R) != len(a):
        raise ValueError(f"S {S.shape}, R {R.shape}, z {z.shape} and a {a.shape} do not fit together.")
    finite = all(np.isfinite(x).all() for x in (z, a, c, near))
    if not finite or (c < 0).any() or (near < 0).any():
        raise ValueError("S, R, z, a, ridge and near must be finite, and ridge and near nonnegative.")


def _check_rows(S: Stack, R: Stack) -> None:
    if not (S.finite() and R.finite()):
        raise ValueError("S, R, z, a, ridge and near must be finite, and ridge and near nonnegative.")


def _up(x: Any) -> Any:
    """Return a number above x by an ulp at least: what is exact lies below it when x is rounded; not for -inf."""
    return x + (np.abs(x) * _ULP + _TINY)


def _down(x: Any) -> Any:
    """Return a number below x by an ulp at least; not for inf."""
    return x - (np.abs(x) * _ULP + _TINY)


def _product(rows: Any, size: Any, vector: Array) -> tuple[Array, Array]:
    """Return ``rows @ vector`` and a bound on its distance to the exact product; ``size`` is ``abs(rows)``."""
    n = rows.shape[1]
    gamma = _gamma(n)
    # the bound's own product is rounded too, by a factor of at most 1 + gamma
    error = (1 + 4 * gamma) * gamma * (size @ np.abs(vector)) + 2 * n * _TINY
    return np.asarray(rows @ vector), np.asarray(error)


def _gamma(n: int) -> float:
    return (n + 2) * _U / (1 - (n + 2) * _U)


class _Sum:
    """``rows' values`` over the chunks of a stack of n rows, with a bound on its error; any order of summation."""

    def __init__(self, n: int, d: int) -> None:
        self.value, self._size = np.zeros(d), np.zeros(d)
        self._gamma, self._tiny = _gamma(n), 2 * n * _TINY

    def add(self, rows: Array, size: Array, values: Array, errors: Array) -> None:
        """Add a chunk whose values are known to within ``errors``."""
        self.value += rows.T @ values
        # in units of gamma, so that one product serves both
        self._size += size.T @ (np.abs(values) * (1 + 4 * _U) + errors / self._gamma)

    @property
    def error(self) -> Array:
        """The bound, (d,)."""
        return np.asarray((1 + 6 * self._gamma) * self._gamma * self._size + self._tiny)


def _brackets(terms: Terms, a: Array, t: Array, t_error: Array) -> tuple[float, float]:
    """Bound the sum of the brackets for margins within ``t_error`` of t; return it, and what t itself gives."""
    slope = -(t + terms.linear + terms.curvature * a)
    unsure = 2 * t_error + 8 * _U * (np.abs(t) + np.abs(terms.linear) + np.abs(terms.curvature * a)) + 4 * _TINY
    # a multiplier at the end of its box that the margin pushes against has a bracket of zero: most of them do
    open_ = ~(((a == terms.upper) & (slope > unsure)) | ((a == terms.lower) & (slope < -unsure)))
    if not open_.any():
        return 0.0, 0.0
    rest = terms.at(open_)
    t, t_error, a = t[open_], t_error[open_], a[open_]
    return _sum_up(_bracket(rest, a, _down(t - t_error), _up(t + t_error))), float(rest.brackets(a, t).sum())


def _bracket(terms: Terms, a: Array, low: Array, high: Array) -> Array:
    """Bound ``phi(t) + h(a) + a t = max_b [(b - a) g - curvature (b - a)^2 / 2]`` for t in [low, high].

    ``g = -(t + linear + curvature a)`` is the dual's slope at a.
    """
    pull = terms.curvature * a
    rounding = 2 * _U * (np.abs(pull) + np.abs(terms.linear)) + 4 * _TINY
    offset = terms.linear + pull
    g_low, g_high = _down(-_up(high + _up(offset + rounding))), _up(-_down(low + _down(offset - rounding)))
    return _bracket_of_slope(terms, a, g_low, g_high)


def _bracket_of_slope(terms: Terms, a: Array, g_low: Array, g_high: Array) -> Array:
    """Bound the bracket for g in an interval."""
    rise = _reach(np.maximum(g_high, 0.0), _up(terms.upper - a), terms.curvature)
    fall = _reach(np.maximum(-g_low, 0.0), _up(a - terms.lower), terms.curvature)
    return np.maximum(rise, fall)


def _reach(slope: Array, room: Array, curvature: Array) -> Array:
    """Bound ``max_{0 <= y <= room} slope y - curvature y^2 / 2``, slope and room nonnegative."""
    room = np.maximum(room, 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        straight = np.where((slope == 0) | (room == 0), 0.0, _up(slope * room))
        bent = np.where(curvature > 0, _up(_up(slope * slope) / _down(2 * curvature)), np.inf)
        # where the parabola's top lies beyond the room, its value at the end of the room
        ends = _up(straight - _down(_down(curvature * _down(room * room)) / 2))
        cut = np.where((curvature > 0) & np.isfinite(room) & (_up(curvature * room) <= slope), ends, straight)
    return np.minimum(np.where(slope == 0, 0.0, bent), np.maximum(cut, 0.0))


def _phi_up(terms: Terms, slope: Array) -> Array:
    """Bound ``phi(t)`` without curvature, at ``slope = t + linear``: the better end of the box."""
    return np.maximum.reduce(
        [
            _up(np.maximum(-slope, 0.0) * terms.upper),
            _up(np.maximum(slope, 0.0) * -terms.lower),
            np.zeros_like(slope),
        ]
    )


def _sum_up(values: Array) -> float:
    """Return the sum, rounded up: ``fsum`` is correctly rounded."""
    if not np.isfinite(values).all():
        return math.inf if not np.isnan(values).any() else math.nan
    return float(np.nextafter(math.fsum(values.tolist()), np.inf))
