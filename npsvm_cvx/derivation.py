r"""From the values of a loss alone to its conjugate, where the loss is piecewise linear-quadratic.

.. math::
    L^*(v) = \sup_t\, (v t - L(t))

The loss is a function of arrays; where it bends, its pieces, and from them the pieces of the conjugate are found by
evaluating it.  What is found is proved by what it must do: the conjugate of the conjugate is the loss, at points that
had no part in finding it.  numpy alone; knows no CVXPY, no hyperparameters, no formulation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .errors import FormulationError
from .formulas import Formula, Term, fraction
from .terms import Array

Values = Callable[[Array], Array]

# of the intervals looked at first, on both sides of zero
_EDGES = (0.0, 0.5, 1.0, 2.0, 4.0, 1e1, 1e2, 1e3, 1e4, 1e6)
_SHARES = np.array([0.0, 0.5, 1.0, 0.071, 0.193, 0.309, 0.427, 0.583, 0.661, 0.829, 0.943])
_RESOLVED = 1e-10  # width, relative to the place, of an interval that holds a bend and nothing else
_OPEN = 96  # intervals that may hold bends at one time; more, and the loss is curved otherwise
_ROUNDING = 256 * float(np.finfo(float).eps)
_PROVED = 1e-9  # relative error allowed of the conjugate's conjugate


class NotDerivable(FormulationError):
    """The loss is not piecewise linear-quadratic, or not convex, or not a function of one margin; the message says."""


@dataclass(frozen=True)
class Quadratic:
    """``constant + linear x + curvature x^2 / 2`` on ``[lower, upper]``."""

    constant: float
    linear: float
    curvature: float
    lower: float
    upper: float

    def __str__(self) -> str:
        return written(*(_number(x) for x in self.numbers))[0]

    @property
    def numbers(self) -> tuple[float, float, float, float, float]:
        """The constant, the factors of x and of x^2, and the two ends."""
        return self.constant, self.linear, self.curvature / 2, self.lower, self.upper

    def __call__(self, x: Array) -> Array:
        """Return the values, without regard to the interval."""
        return self.constant + self.linear * x + self.curvature * x**2 / 2

    def conjugate(self, x: Array) -> Array:
        """Return the conjugate: ``sup_y (x y - q(y))`` over the interval."""
        slope = x - self.linear
        with np.errstate(divide="ignore", invalid="ignore"):
            best = np.where(
                slope > 0, self.upper, np.where(slope < 0, self.lower, np.clip(0.0, self.lower, self.upper))
            )
            if self.curvature > 0:
                best = np.clip(slope / self.curvature, self.lower, self.upper)
            value = slope * best - self.curvature * best**2 / 2 - self.constant
        return np.where(np.isfinite(best), value, np.inf)


def derive(loss: Values) -> tuple[Quadratic, ...]:
    """Return the pieces of the conjugate, from left to right, each as long as one quadratic serves.

    Raises
    ------
    NotDerivable
        The loss is not finite everywhere, not convex, or not piecewise linear-quadratic with few pieces.

    Examples
    --------
    >>> derive(lambda t: np.maximum(1 - t, 0) ** 2)
    (Quadratic(constant=0.0, linear=1.0, curvature=0.5, lower=-inf, upper=0.0),)
    """
    if coupled(loss):
        raise NotDerivable("the loss of a sample depends on the other samples' margins.")
    found = witness(loss)
    if found is not None:
        raise NotDerivable(f"the loss is not convex: {found}.")
    pieces = _conjugate(_refined(loss, _pieces(loss)))
    _prove(loss, pieces)
    return pieces


def _number(x: float) -> Formula | None:
    return Formula((Term(x),) if x else ()) if np.isfinite(x) else None


def written(
    constant: Formula | None,
    linear: Formula | None,
    square: Formula | None,
    lower: Formula | None,
    upper: Formula | None,
) -> tuple[str, str]:
    """Return a conjugate of one piece as a paper states it, and as the lines that declare it; None is no bound.

    >>> text, code = written(Formula(()), Formula((Term(1.0),)), Formula((Term(0.25),)), None, Formula(()))
    >>> print(text, "|", code)
    v + v^2/4 on v <= 0 | return v + cp.square(v) / 4, [v <= 0]
    """
    parts = [(linear, "v", "v"), (square, "v^2", "cp.square(v)"), (constant, "", "")]
    texts = [f.text(times) for f, times, _ in parts if f is not None and f.terms]
    codes = [f.code(times=times) for f, _, times in parts if f is not None and f.terms]
    text, code = (" + ".join(each).replace("+ -", "- ") or "0" for each in (texts, codes))
    where = " <= ".join([*([str(lower)] if lower else []), "v", *([str(upper)] if upper else [])])
    bounds = [*([f"v >= {lower.code()}"] if lower else []), *([f"v <= {upper.code()}"] if upper else [])]
    domain = f"on {where}" if bounds else "for every v"
    return f"{text} {domain}", f"return {code}, [{', '.join(bounds)}]"


def witness(loss: Values) -> str | None:
    """Return three points at which the loss is not convex, in words; None where none were found.

    >>> witness(lambda t: np.minimum(np.maximum(1 - t, 0), 2))
    'at t = -1 it is 2, above 1, the chord between its values at t = -3 and t = 1'
    """
    half = np.concatenate([np.arange(0.0, 4.0, 0.25), 4.0 * 1.5 ** np.arange(30)])
    fine = 10.0 ** np.arange(-7.0, 0.0)
    for t in (np.unique([-half, half]), np.unique(np.concatenate([1 - fine, [1.0], 1 + fine, -fine, [0.0], fine]))):
        found = _above_a_chord(t, evaluate(loss, t))
        if found is not None:
            left, middle, right, value, chord = found
            digits = next((d for d in range(4, 17) if f"{value:.{d}g}" != f"{chord:.{d}g}"), 17)
            return (
                f"at t = {middle:.6g} it is {value:.{digits}g}, above {chord:.{digits}g}, the chord between its values "
                f"at t = {left:.6g} and t = {right:.6g}"
            )
    return None


def _above_a_chord(t: Array, value: Array) -> tuple[float, float, float, float, float] | None:
    """Return left, middle, right, value and chord where the value is farthest above the chord, beside its size."""
    t, value = t[np.isfinite(value)], value[np.isfinite(value)]
    best, found = 0.0, None
    for reach in (1, 2, 4, 8):
        for i in range(len(t) - 2 * reach):
            left, middle, right = i, i + reach, i + 2 * reach
            share = (t[middle] - t[left]) / (t[right] - t[left])
            chord = (1 - share) * value[left] + share * value[right]
            size = abs(value[left]) + abs(value[middle]) + abs(value[right])
            excess = (value[middle] - chord) / size if size > 0 else 0.0
            if excess > 1e-9 and excess * min(1.0, t[right] - t[left]) > best:
                best = excess * min(1.0, t[right] - t[left])
                points = float(t[left]), float(t[middle]), float(t[right])
                found = (*points, float(value[middle]) + 0.0, float(chord) + 0.0)
    return found


def evaluate(loss: Values, t: Array) -> Array:
    """Return the loss's values as floats of t's shape, NaN or infinite where it is that."""
    with np.errstate(all="ignore"):
        return np.array(np.broadcast_to(np.asarray(loss(t), dtype=float), t.shape))


def coupled(loss: Values) -> bool:
    """Whether the loss of one sample depends on the margins of others.

    >>> coupled(lambda t: np.maximum(1 - t, 0)), coupled(lambda t: t - t.mean())
    (False, True)
    """
    t = np.array([-3.0, -0.7, 0.2, 0.9, 1.3, 5.0])
    together, alone = evaluate(loss, t), np.array([evaluate(loss, t[i : i + 1])[0] for i in range(len(t))])
    known = np.isfinite(together) & np.isfinite(alone)
    with np.errstate(invalid="ignore"):
        apart = np.abs(together - alone)
    return bool((apart > 1e-12 * np.abs(together).max(where=known, initial=0.0))[known].any())


# --- the pieces of the loss --------------------------------------------------------------------------------


def _pieces(loss: Values) -> list[tuple[float, float]]:
    """Return the intervals on each of which the loss is one quadratic, found by halving those on which it is not."""
    edges = np.array([*(-e for e in reversed(_EDGES[1:])), *_EDGES])
    waiting = list(itertools.pairwise(edges.tolist()))
    fitted: list[tuple[float, float]] = []
    while waiting:
        if len(waiting) > _OPEN:
            raise NotDerivable("the loss is not piecewise linear-quadratic: between its bends it is curved otherwise.")
        fine = _one_quadratic(loss, np.array(waiting))
        fitted += [pair for pair, good in zip(waiting, fine, strict=True) if good]
        halves = [
            half
            for (a, b), good in zip(waiting, fine, strict=True)
            if not good and b - a > _RESOLVED * max(abs(a), abs(b), 1.0)
            for half in ((a, (a + b) / 2), ((a + b) / 2, b))
        ]
        waiting = halves
    merged: list[tuple[float, float]] = []
    longest = before = (0.0, 0.0)
    for one in sorted(fitted):
        # a neighbour is about as long, and sees a bend between them that drowns in the rounding of a longer interval;
        # the longest sees a change that is slow
        if merged and _continues(loss, before, one) and _continues(loss, longest, one):
            merged[-1] = (merged[-1][0], one[1])
            longest = max(longest, one, key=lambda pair: pair[1] - pair[0])
        else:
            merged.append(one)
            longest = one
        before = one
    return merged


def _one_quadratic(loss: Values, pairs: Array) -> Array:
    """Whether the loss is one quadratic on each interval, to rounding."""
    a, b = pairs[:, :1], pairs[:, 1:]
    t = a + _SHARES * (b - a)
    value = evaluate(loss, t.ravel()).reshape(t.shape)
    if not np.isfinite(value).all():
        where = t[~np.isfinite(value)]
        raise NotDerivable(
            "the loss is not piecewise linear-quadratic: at t = "
            f"{where[np.argmin(np.abs(where))]:.4g} it is no finite number."
        )
    return np.asarray(np.abs(value - _through(value, _SHARES)).max(axis=1) <= _noise(t, value))


def _through(value: Array, share: Array) -> Array:
    """Return, at the shares of an interval, the quadratic through its ends and its middle."""
    left, middle, right = value[:, :1], value[:, 1:2], value[:, 2:3]
    x = 2 * share - 1
    return middle + (right - left) / 2 * x + ((right + left) / 2 - middle) * x**2


def _noise(t: Array, value: Array) -> Array:
    size, reach = np.abs(value).max(axis=1), np.abs(t).max(axis=1)
    spread, width = np.ptp(value, axis=1), np.ptp(t, axis=1)
    return np.asarray(_ROUNDING * (size + spread / width * np.maximum(reach, 1.0)))


def _continues(loss: Values, one: tuple[float, float], two: tuple[float, float]) -> bool:
    """Whether the quadratic of the longer of two intervals is that of the other too."""
    long, short = (one, two) if one[1] - one[0] >= two[1] - two[0] else (two, one)
    a, b = long
    t = np.array([[a, (a + b) / 2, b, *(short[0] + _SHARES * (short[1] - short[0]))]])
    value = evaluate(loss, t.ravel()).reshape(t.shape)
    error = np.abs(value - _through(value, (t - a) / (b - a)))[0, 3:].max()
    # an extrapolation multiplies the rounding of the three values it rests on
    far = max(1.0, float(np.abs((t - a) / (b - a)).max()) ** 2)
    return bool(error <= 4 * far * _noise(t, value)[0])


def _refined(loss: Values, spans: list[tuple[float, float]]) -> list[Quadratic]:
    """Return each piece's quadratic with all digits its values have, and no piece that rounding made."""
    found = [_quadratic(loss, a, b, first=i == 0, last=i == len(spans) - 1) for i, (a, b) in enumerate(spans)]
    for least in (1e-5, 1e-7, 1e-9, 0.0):
        wide = [q for q, (a, b) in zip(found, spans, strict=True) if b - a > least * max(1.0, abs(a), abs(b))]
        joined = _joined(wide)
        if joined and _fits(loss, joined):
            return joined
    raise NotDerivable("the loss is not piecewise linear-quadratic: no pieces reproduce its values.")


def _quadratic(loss: Values, a: float, b: float, *, first: bool, last: bool) -> Quadratic:
    """Fit one quadratic to the values on an interval, each weighed by its own rounding."""
    ends = -np.inf if first else a, np.inf if last else b
    # from each end that is a bend, at distances of every size: near it the constant shows, further out the slope, and
    # furthest the curvature.  The ends themselves are known only as far as the bends were resolved
    step = (b - a) * np.geomspace(1e-9, 0.5, 40)
    bend = max(0.0 if first else abs(a), 0.0 if last else abs(b))
    step = step[step > 1e-3 * min(max(1.0, bend), b - a)]
    t = np.concatenate([[] if first and not last else a + step, [] if last and not first else b - step])
    if first and last:
        t = np.concatenate([-np.geomspace(1e-3, b, 40), [0.0], np.geomspace(1e-3, b, 40)])
    t = np.unique(t)
    value = evaluate(loss, t)
    if not value.any():
        return Quadratic(0.0, 0.0, 0.0, *ends)
    origin = float(t[np.argmin(np.abs(value))])  # where the terms cancel least
    s = t - origin
    grid = np.column_stack([np.ones(len(s)), s, s**2 / 2])
    reach = np.maximum(np.abs(t), 1e-3)
    slope = np.gradient(value, t)
    fit, kept = np.zeros(3), np.ones(3, dtype=bool)
    for _ in range(4):  # refined by its own residuals, without the terms that turn out to be rounding
        noise = np.abs(value) + np.abs(slope) * reach
        weight = 1.0 / np.maximum(noise, 1e-14 * noise.max())
        scaled = (grid * weight[:, None])[:, kept]
        columns = np.maximum(np.abs(scaled).max(axis=0), 1e-300)
        fit[kept] += np.linalg.lstsq(scaled / columns, (value - grid @ fit) * weight, rcond=None)[0] / columns
        share = np.abs(grid * fit).T / np.maximum(np.abs(grid) @ np.abs(fit), 1e-300)
        kept = share.max(axis=1) > 1e-9
        fit[~kept] = 0.0
        slope = fit[1] + fit[2] * s
    c, linear, curvature = (float(x) for x in fit)
    constant = c - linear * origin + curvature * origin**2 / 2
    return Quadratic(float(constant), float(linear - curvature * origin), curvature, *ends)


def _joined(pieces: list[Quadratic]) -> list[Quadratic]:
    """Return the pieces with the places where each meets the next computed from the two of them."""
    found: list[Quadratic] = []
    for piece in pieces:
        if found and _alike(found[-1], piece):
            piece = replace(found.pop(), upper=piece.upper)
        elif found:
            meet = _meeting(found[-1], piece)
            found[-1], piece = replace(found[-1], upper=meet), replace(piece, lower=meet)
        found.append(piece)
    return found


def _alike(one: Quadratic, two: Quadratic) -> bool:
    pairs = ((one.linear, two.linear), (one.curvature, two.curvature), (one.constant, two.constant))
    size = max(abs(one.linear), abs(two.linear), abs(one.curvature), abs(two.curvature), 1e-300)
    return all(abs(p - q) <= 1e-9 * max(abs(p), abs(q), size if k == 0 else 0.0) for k, (p, q) in enumerate(pairs))


def _meeting(one: Quadratic, two: Quadratic) -> float:
    """Return where two neighbouring quadratics are equal: at a bend, or where they touch."""
    guess = (one.upper + two.lower) / 2
    c, b, r = one.constant - two.constant, one.linear - two.linear, one.curvature - two.curvature
    if abs(r) * max(abs(guess), 1.0) <= 1e-12 * abs(b):
        return -c / b if b else guess
    touching = -b / r
    inside = c - b * b / (2 * r)  # the difference there
    size = abs(one.constant) + abs(two.constant) + abs(b * touching)
    if abs(inside) <= 1e-10 * size:
        return _tidy(touching)
    root = np.sqrt(max(b * b - 2 * r * c, 0.0))
    return float(min(((-b + root) / r, (-b - root) / r), key=lambda t: abs(t - guess)))


def _fits(loss: Values, pieces: list[Quadratic]) -> bool:
    rng = np.random.default_rng(0)
    bends = np.array([p.upper for p in pieces[:-1]])
    t = np.concatenate([rng.normal(size=60), 1 + rng.normal(size=60) * 10.0 ** rng.integers(-6, 5, 60), bends])
    t = np.concatenate([t, *(bends + d for d in (-0.1, -1e-3, 1e-3, 0.1))])
    value = evaluate(loss, t)
    which = np.searchsorted(bends, t)
    built = np.array([pieces[k](x) for k, x in zip(which, t, strict=True)])
    # beside a bend, the steeper of its two sides says what rounding does
    steep = np.array([abs(p.linear) + abs(p.curvature) * np.abs(t) for p in pieces])
    steep = np.array([steep[max(k - 1, 0) : k + 2, i].max() for i, k in enumerate(which)])
    size = np.abs(value) + steep * np.maximum(np.abs(t), 1.0)
    return bool((np.abs(built - value) <= _PROVED * size).all())


def _tidy(x: float) -> float:
    """Return x without the rounding of how it was found: a simple fraction, or few digits."""
    if not np.isfinite(x):
        return float(x)
    near = fraction(x, 1e-11)
    short = float(f"{x:.10g}")
    return float(near) if near is not None else short if abs(short - x) <= 1e-12 * abs(x) else float(x)


# --- the pieces of the conjugate ---------------------------------------------------------------------------


def _conjugate(pieces: list[Quadratic]) -> tuple[Quadratic, ...]:
    """Return the conjugate's pieces: each bend of the loss gives a line, each curved piece a parabola."""
    found: list[Quadratic] = []
    for i, piece in enumerate(pieces):
        r, b, c = piece.curvature, piece.linear, piece.constant
        low, high = (_sum(b, r * end) if r else b for end in (piece.lower, piece.upper))
        if r > 0:  # (v - b)^2 / (2 r) - c
            found.append(_tidied(b * b / (2 * r) - c, -b / r, 1 / r, low, high, max(b * b / (2 * r), abs(c))))
        if i + 1 < len(pieces):
            t = piece.upper
            right = _sum(pieces[i + 1].linear, pieces[i + 1].curvature * t)
            if right - high > 1e-9 * max(abs(right), abs(high)):  # v t - L(t)
                value = float(piece(np.array(t)))
                size = abs(c) + abs(b * t) + abs(r) * t * t / 2
                found.append(_tidied(-value, t, 0.0, high, right, size))
    if not found:
        slope = pieces[0].linear
        raise NotDerivable(f"the loss is affine, of slope {slope:.6g} everywhere: it leaves nothing to a dual.")
    merged = [found[0]]
    for piece in found[1:]:
        if _alike(merged[-1], piece):
            merged[-1] = replace(merged[-1], upper=piece.upper)
        else:
            merged.append(piece)
    return tuple(merged)


def _sum(x: float, y: float) -> float:
    """Return x + y, zero where that is rounding."""
    return 0.0 if abs(x + y) <= 1e-9 * abs(x) else x + y


def _tidied(constant: float, linear: float, curvature: float, lower: float, upper: float, size: float) -> Quadratic:
    return Quadratic(
        0.0 if abs(constant) <= 1e-9 * size else _tidy(constant),
        0.0 if abs(linear) <= 1e-12 else _tidy(linear),
        _tidy(curvature),
        _tidy(lower),
        _tidy(upper),
    )


def _prove(loss: Values, pieces: tuple[Quadratic, ...]) -> None:
    """Refuse pieces whose conjugate is not the loss, at points that had no part in finding them."""
    rng = np.random.default_rng(1)
    t = np.concatenate([rng.normal(size=100), 1 + rng.normal(size=200) * 10.0 ** rng.integers(-8, 6, size=200)])
    value = evaluate(loss, t)
    again = np.max([piece.conjugate(t) for piece in pieces], axis=0)
    slopes = np.gradient(value[np.argsort(t)], np.sort(t))
    size = np.maximum(np.abs(value), np.median(np.abs(slopes)) * 1e-3)
    apart = np.abs(again - value) / np.maximum(size, 1e-300)
    far = np.concatenate([sign * 10.0 ** np.arange(6.5, 12.0) for sign in (-1.0, 1.0)])
    beyond, ends = evaluate(loss, far), np.max([piece.conjugate(far) for piece in pieces], axis=0)
    with np.errstate(invalid="ignore"):
        late = np.abs(ends - beyond) > 1e-6 * np.maximum(np.abs(beyond), np.median(np.abs(slopes)))
    if late.any() and (apart <= _PROVED).all():
        raise NotDerivable(f"the loss bends beyond t = {float(far[late][np.argmin(np.abs(far[late]))]):.3g}.")
    if not (apart <= _PROVED).all():
        k = int(np.argmax(np.where(np.isnan(apart), np.inf, apart)))
        raise NotDerivable(
            f"the loss is not piecewise linear-quadratic: at t = {t[k]:.6g} it is {value[k]:.8g}, its pieces give "
            f"{again[k]:.8g}."
        )
