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

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .terms import Array, Terms

_U = 2.0**-53
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
    S, R : arrays
        Near rows and margin rows; for a linear program, R holds G and S is empty.
    z, a : arrays
        The plane and the multipliers.
    terms : Terms
    ridge : (d,) array
    near : float
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

    S: Array
    R: Array
    z: Array
    a: Array
    terms: Terms
    ridge: Array
    near: float = 1.0
    free: tuple[int, int] | None = None

    def check(self) -> Certificate:
        """Return what the proof proves, computed here and now."""
        if self.free is not None:
            return certify_linear_program(self.R, self.z, self.a, self.terms, slice(*self.free))
        return certify(self.S, self.R, self.z, self.a, self.terms, ridge=self.ridge, near=self.near)

    def to_json(self) -> str:
        """Return the proof and its claim as JSON; terms are written so that they are read back to the bit."""
        certificate = self.check()
        fields = {
            "S": self.S,
            "R": self.R,
            "z": self.z,
            "a": self.a,
            "ridge": self.ridge,
            **{name: getattr(self.terms, name) for name in ("linear", "curvature", "lower", "upper")},
        }
        return json.dumps(
            {
                "format": _FORMAT,
                "claim": {"gap": certificate.gap, "value": certificate.value},
                "near": self.near,
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
            float(data["claim"]["gap"])
            if data["format"] != _FORMAT:
                raise ValueError(f"its format is {data['format']!r}, not {_FORMAT!r}")
            read = {name: np.array(data[name]["values"], dtype=float).reshape(data[name]["shape"]) for name in _ARRAYS}
            linear, curvature, lower, upper = (read[name] for name in _ARRAYS[5:])
            terms = Terms(linear, curvature, lower, upper, float(data["constant"]))
            free = None if data["free"] is None else (int(data["free"][0]), int(data["free"][1]))
            S, R, z, a = (read[name] for name in _ARRAYS[:4])
            return cls(S, R, z, a, terms, read["ridge"], float(data["near"]), free)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ValueError(f"not a certificate: {error}") from None


_FORMAT = "npsvm-cvx certificate 1"
_ARRAYS = ("S", "R", "z", "a", "ridge", "linear", "curvature", "lower", "upper")


def certify(
    S: Array, R: Array, z: Array, a: Array, terms: Terms, *, ridge: float | Array, near: float = 1.0
) -> Certificate:
    r"""Bound the gap of a plane and multipliers of a box-constrained, separable quadratic dual.

    Parameters
    ----------
    S, R : (m, d) and (l, d) arrays
        Near rows and margin rows.
    z : (d,) array
        The plane.
    a : (l,) array
        Multipliers; any finite terms, put into their domain first.
    terms : Terms
        ``h_i``, whose entries are taken as exact.
    ridge : float or (d,) array
        Diagonal of ``M - near S'S``.  Where it is zero the bound is finite only if r is zero there.
    near : float
        Multiplier of S'S.

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
    c = np.broadcast_to(np.asarray(ridge, dtype=float), z.shape)
    _check(S, R, z, a, c)
    a = np.clip(a, terms.lower, terms.upper)
    t, t_error = _product(R, z, np.zeros_like(z))
    brackets = _bracket(terms, a, _down(t - t_error), _up(t + t_error))

    y, y_error = _product(S, z, np.zeros_like(z))
    Sy, Sy_error = _product(S.T, y, y_error)
    Ra, Ra_error = _product(R.T, a, np.zeros_like(a))
    pull, hold = near * Sy, c * z
    residual = Ra - pull - hold
    rounding = 4 * _U * (np.abs(Ra) + 2 * np.abs(pull) + 2 * np.abs(hold)) + 4 * _TINY
    r = _up(_up(np.abs(residual) + _up(Ra_error + rounding)) + _up(near * Sy_error))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        squares = np.where(r == 0, 0.0, _up(_up(r * r) / np.maximum(_down(2 * c), 0.0)))  # no ridge: no bound
    gap = _sum_up(np.concatenate([brackets, squares]))
    value = near * float(y @ y) / 2 + float(c @ (z * z)) / 2 + float(terms.phi(t).sum()) - terms.constant
    return Certificate(gap, value)


def certify_linear_program(G: Array, z: Array, a: Array, terms: Terms, free: slice) -> Certificate:
    r"""Bound the gap of a plane and multipliers of ``max -c'a`` subject to ``G'a = 0`` and boxes that hold zero.

    Parameters
    ----------
    G : (n, d) array
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
    block = G[free]
    scale = float(block[0, 0])
    d = G.shape[1]
    if block.shape != (d, d) or not np.array_equal(block, scale * np.eye(d)) or scale == 0:
        raise ValueError("the free rows must be a nonzero multiple of the identity.")
    if (terms.curvature != 0).any() or (terms.linear[free] != 0).any():
        raise ValueError("a linear program has no curvature, and its free multipliers no cost.")
    if (terms.lower > 0).any() or (terms.upper < 0).any() or not np.isfinite([terms.lower, terms.upper]).all():
        raise ValueError("the boxes must be finite and hold zero.")
    _check(G, G, z, a, np.ones(d))
    rest = np.ones(len(a), dtype=bool)
    rest[free] = False
    a = np.clip(a, terms.lower, terms.upper)
    needed, error = _product(G[rest].T, a[rest], np.zeros(int(rest.sum())))
    needed, error = -needed / scale, _up(_up(error / abs(scale)) + 2 * _U * np.abs(needed / scale) + _TINY)
    high, low = _up(needed + error), _down(needed - error)
    with np.errstate(divide="ignore", invalid="ignore"):
        over = np.where(high > 0, _up(high / terms.upper[free]), 0.0)
        under = np.where(low < 0, _up(low / terms.lower[free]), 0.0)
    shrink = float(_down(1.0 / max(1.0, float(np.max([over, under], initial=0.0)))))

    t, t_error = _product(G, z, np.zeros_like(z))
    ends = [_phi_up(terms, _down(t - t_error)), _phi_up(terms, _up(t + t_error))]
    primal = _sum_up(np.maximum(*ends))
    # the constant belongs to both values and cancels
    dual = -_sum_up(_up(terms.linear[rest] * a[rest])) * shrink
    dual = dual - abs(dual) * 2 * _U - _TINY
    gap = float(_up(np.float64(primal - dual)))
    return Certificate(max(gap, 0.0), primal - terms.constant)


def _check(S: Array, R: Array, z: Array, a: Array, c: Array) -> None:
    if S.shape[1] != len(z) or R.shape[1] != len(z) or len(R) != len(a):
        raise ValueError(f"S {S.shape}, R {R.shape}, z {z.shape} and a {a.shape} do not fit together.")
    if not all(np.isfinite(x).all() for x in (S, R, z, a, c)) or (c < 0).any():
        raise ValueError("S, R, z, a and ridge must be finite, and ridge nonnegative.")


def _up(x: Any) -> Any:
    return np.nextafter(x, np.inf)


def _down(x: Any) -> Any:
    return np.nextafter(x, -np.inf)


def _product(matrix: Array, vector: Array, vector_error: Array) -> tuple[Array, Array]:
    """Return ``matrix @ vector`` and a bound on its distance to the exact product, the vector itself in error."""
    n = matrix.shape[1]
    size = np.abs(matrix)
    gamma = (n + 2) * _U / (1 - (n + 2) * _U)
    # the bound's own products are rounded too, by a factor of at most 1 + gamma
    slack = 1 + 4 * gamma
    error = slack * (gamma * (size @ np.abs(vector)) + size @ vector_error) + 2 * n * _TINY
    return np.asarray(matrix @ vector), np.asarray(error)


def _bracket(terms: Terms, a: Array, low: Array, high: Array) -> Array:
    """Bound ``phi(t) + h(a) + a t = max_b [(b - a) g - curvature (b - a)^2 / 2]`` for t in [low, high].

    ``g = -(t + linear + curvature a)`` is the dual's slope at a.
    """
    pull = terms.curvature * a
    rounding = 2 * _U * (np.abs(pull) + np.abs(terms.linear)) + 4 * _TINY
    offset = terms.linear + pull
    g_low, g_high = _down(-_up(high + _up(offset + rounding))), _up(-_down(low + _down(offset - rounding)))
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


def _phi_up(terms: Terms, t: Array) -> Array:
    """Bound ``phi(t)`` without curvature: the better end of the box."""
    low, high = _down(-_up(t + terms.linear)), _up(-_down(t + terms.linear))
    return np.maximum.reduce(
        [_up(np.maximum(high, 0.0) * terms.upper), _up(np.maximum(-low, 0.0) * -terms.lower), np.zeros_like(t)]
    )


def _sum_up(values: Array) -> float:
    """Return the sum, rounded up: ``fsum`` is correctly rounded."""
    if not np.isfinite(values).all():
        return math.inf if not np.isnan(values).any() else math.nan
    return float(np.nextafter(math.fsum(values.tolist()), np.inf))
