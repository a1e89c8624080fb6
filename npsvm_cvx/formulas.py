"""Numbers as their author would write them: simple fractions, and sums of products of hyperparameters.

numpy alone; knows no formulation.  A coefficient measured at several settings of the hyperparameters becomes a
:class:`Formula`, ``1/(4 C2)`` say, where there is a simple one that fits all of them to working precision.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from .terms import Array

_TOLERANCE = 1e-7  # relative; what is measured through an interior-point solver is good to about that
_TYPED = 1e-13  # what a term's own number may differ by from the fraction it is written as
_LARGEST = 64  # denominator of a simple fraction


def fraction(x: float, tolerance: float = 1e-9) -> Fraction | None:
    """Return the simple fraction that x is to working precision, or None.

    >>> fraction(-0.25), fraction(1 / 3), fraction(0.1234567)
    (Fraction(-1, 4), Fraction(1, 3), None)
    """
    if not math.isfinite(x) or abs(x) > 1e6:
        return None
    near = Fraction(x).limit_denominator(_LARGEST)
    return near if abs(float(near) - x) <= tolerance * abs(x) else None


def plain(x: float, tolerance: float = 1e-9) -> str:
    """Return a number as a simple fraction where it is one, and in four digits otherwise.

    >>> plain(-0.5), plain(3.0), plain(0.1234567), plain(float("inf"))
    ('-1/2', '3', '0.1235', 'inf')
    """
    near = fraction(x, tolerance)
    return f"{x:.4g}" if near is None else str(near)


@dataclass(frozen=True)
class Term:
    """A number times powers of atoms, an atom being a hyperparameter's name p, or ``1 - p``."""

    factor: float
    powers: tuple[tuple[str, int], ...] = ()

    def text(self, times: str = "") -> str:
        """Return the term without its sign, as in a paper; ``times`` is one factor more."""
        near = fraction(abs(self.factor), _TYPED)
        number, below = (f"{abs(self.factor):.9g}", 1) if near is None else (str(near.numerator), near.denominator)
        above, under = self._sorted(lambda atom: f"({atom})" if " " in atom else atom, "^")
        return _quotient(number, [*above, *([times] if times else [])], below, under, " ", "/")

    def code(self, prefix: str, times: str = "") -> str:
        """Return the term without its sign, as Python; ``prefix`` stands before each hyperparameter."""

        def python(atom: str) -> str:
            return f"(1 - {prefix}{atom.removeprefix('1 - ')})" if " " in atom else prefix + atom

        near = fraction(abs(self.factor), _TYPED)
        number, below = (f"{abs(self.factor):.15g}", 1) if near is None else (str(near.numerator), near.denominator)
        above, under = self._sorted(python, "**")
        return _quotient(number, [*above, *([times] if times else [])], below, under, " * ", " / ")

    def _sorted(self, write: Callable[[str], str], power: str) -> tuple[list[str], list[str]]:
        """Return the factors above and below the line."""
        parts = [(p > 0, write(atom) + (f"{power}{abs(p)}" if abs(p) != 1 else "")) for atom, p in self.powers]
        return [part for over, part in parts if over], [part for over, part in parts if not over]


def _quotient(number: str, above: list[str], divisor: int, below: list[str], by: str, over: str) -> str:
    top = [*([number] if number != "1" or not above else []), *above]
    bottom = [*([str(divisor)] if divisor != 1 else []), *below]
    if not bottom:
        return by.join(top)
    return f"{by.join(top)}{over}{bottom[0] if len(bottom) == 1 else f'({by.join(bottom)})'}"


@dataclass(frozen=True)
class Formula:
    """A sum of terms; none is zero."""

    terms: tuple[Term, ...]

    def __str__(self) -> str:
        return self.text()

    def text(self, times: str = "") -> str:
        """Return the formula as in a paper, each term times one factor more.

        >>> Formula((Term(1.0), Term(-0.5, (("delta", 1),)))).text("v")
        'v - delta v/2'
        """
        return _signed([(t.factor < 0, t.text(times)) for t in self.terms]) or "0"

    def code(self, prefix: str = "self.", times: str = "") -> str:
        """Return the formula as a Python expression.

        >>> Formula((Term(0.25, (("C2", -1), ("1 - d", -1))),)).code()
        '1 / (4 * self.C2 * (1 - self.d))'
        """
        return _signed([(t.factor < 0, t.code(prefix, times)) for t in self.terms]) or "0"


def _signed(parts: Sequence[tuple[bool, str]]) -> str:
    text = "".join((" - " if negative else " + ") + part for negative, part in parts)
    return "-" + text[3:] if text.startswith(" - ") else text[3:]


def fit(
    settings: Sequence[Mapping[str, float]], values: Sequence[float], tolerance: float = _TOLERANCE
) -> Formula | None:
    """Return the simplest formula that has these values at these settings; None where no simple one has.

    Examples
    --------
    >>> settings = [{"C2": c, "d": d} for c, d in ((1, 0.5), (0.7, 0.3), (2.3, 0.6), (1.9, 0.1), (0.4, 0.8))]
    >>> print(fit(settings, [-1 / (4 * s["C2"]) for s in settings]))
    -1/(4 C2)
    >>> print(fit(settings, [1 + s["d"] / (2 * (1 - s["d"])) for s in settings]))
    1/2 + 1/(2 (1 - d))
    >>> fit(settings, [math.sin(s["C2"]) for s in settings]) is None
    True
    """
    whole = np.asarray(values, dtype=float)
    if not np.isfinite(whole).all():
        return None
    # where a hyperparameter is 0, or 1, a product with it says nothing: what fits the others has to hold there too
    general = [i for i, s in enumerate(settings) if not {0.0, 1.0} & set(s.values())]
    if 4 <= len(general) < len(settings):
        found = fit([settings[i] for i in general], [values[i] for i in general], tolerance)
        return found if found is not None and _holds(found, settings, whole, tolerance) else None
    target = whole
    size = float(np.abs(target).max(initial=0.0))
    if size == 0:
        return Formula(())
    names = [n for n in settings[0] if len({s[n] for s in settings}) > 1]
    columns = {n: np.array([s[n] for s in settings], dtype=float) for n in names}
    atoms = {n: column for n, column in columns.items() if (column != 0).all()}
    atoms |= {f"1 - {n}": 1 - column for n, column in columns.items() if ((column > 0) & (column < 1)).all()}
    products = [(powers, _value(powers, atoms, len(target))) for powers in _products(list(atoms))]
    loose: Formula | None = None
    for powers, value in products:
        if (target == 0).any():
            break
        ratio = target / value
        factor = float(ratio[np.argmin(np.abs(ratio - np.median(ratio)))])
        if np.abs(ratio - factor).max() <= tolerance * abs(factor):
            found = Formula((Term(_tidy(factor, tolerance), powers),))
            if fraction(factor, tolerance) is not None:
                return found
            loose = loose or found
    return loose or (_sum_of_two(products, target, tolerance) if len(target) > 3 else None)


def _holds(formula: Formula, settings: Sequence[Mapping[str, float]], values: Array, tolerance: float) -> bool:
    size = max(float(np.abs(values).max()), 1e-300)
    for setting, value in zip(settings, values, strict=True):
        atoms = {n: np.array([float(x)]) for n, x in setting.items()}
        atoms |= {f"1 - {n}": 1 - x for n, x in atoms.items()}
        with np.errstate(divide="ignore", invalid="ignore"):
            found = sum((t.factor * _value(t.powers, atoms, 1)[0] for t in formula.terms), 0.0)
        if not abs(found - value) <= tolerance * size:
            return False
    return True


def _tidy(factor: float, tolerance: float) -> float:
    near = fraction(factor, tolerance)
    return factor if near is None else float(near)


def _products(atoms: list[str]) -> Iterator[tuple[tuple[str, int], ...]]:
    """Yield products of powers of the atoms, the simplest first."""
    yield ()
    for degree in (1, 2, 3, 4) if len(atoms) <= 5 else (1, 2, 3):
        for count in range(1, min(degree, len(atoms)) + 1):
            for chosen in itertools.combinations(atoms, count):
                for split in itertools.product(range(1, degree + 1), repeat=count):
                    if sum(split) == degree:
                        for signs in itertools.product((1, -1), repeat=count):
                            yield tuple((a, p * s) for a, p, s in zip(chosen, split, signs, strict=True))


def _value(powers: tuple[tuple[str, int], ...], atoms: Mapping[str, Array], n: int) -> Array:
    value = np.ones(n)
    for atom, power in powers:
        value = value * atoms[atom] ** power
    return value


def _sum_of_two(
    products: Sequence[tuple[tuple[tuple[str, int], ...], Array]], target: Array, tolerance: float
) -> Formula | None:
    simple = [(powers, value) for powers, value in products if sum(abs(p) for _, p in powers) <= 2]
    for (one, first), (two, second) in itertools.combinations(simple, 2):
        grid = np.column_stack([first, second])
        scale = np.abs(grid).max(axis=0)
        (a, b), *_ = np.linalg.lstsq(grid / scale, target, rcond=None)
        a, b = a / scale[0], b / scale[1]
        size = np.abs(a * first) + np.abs(b * second)
        near = np.abs(a * first + b * second - target).max() <= tolerance * max(size.max(), 1e-300)
        if near and fraction(a, 10 * tolerance) is not None and fraction(b, 10 * tolerance) is not None:
            exact = [float(fraction(x, 10 * tolerance) or 0) for x in (a, b)]
            terms = (Term(exact[0], one), Term(exact[1], two))
            return Formula(tuple(t for t in terms if t.factor))
    return None
