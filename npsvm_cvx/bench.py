"""A formulation at several settings of its hyperparameters, each probed once, and numbers as they then are written.

What a diagnosis is measured with; knows no diagnosis.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np

from .errors import NPSVMError
from .formulas import Formula, Term, fit, fraction, plain
from .modeling import Formulation
from .probe import Change, Multipliers, Probe

_SETTINGS = 6
BOUNDS = 1e-5
"""Relative accuracy of what is measured: where a problem becomes unbounded is told by an interior-point solver."""


@dataclass(frozen=True)
class Quantity:
    """A number measured at the present setting, and the formula that it is at all of them, where one was found."""

    now: float
    formula: Formula | None

    def __str__(self) -> str:
        return plain(self.now, BOUNDS)

    @property
    def general(self) -> str:
        """The formula where there is one, the present number otherwise."""
        return str(self) if self.formula is None else str(self.formula)

    @property
    def names(self) -> set[str]:
        """The hyperparameters it depends on."""
        powers = [] if self.formula is None else [p for term in self.formula.terms for p, _ in term.powers]
        return {p.removeprefix("1 - ") for p in powers}


class Bench:
    """A formulation at several settings of its hyperparameters, the present one first, each probed once."""

    def __init__(self, formulation: Formulation, near: int = 4, margin: int = 5) -> None:
        self.params: list[dict[str, float]] = []
        self.probes: list[Probe] = []
        for each in formulation.variations(_SETTINGS):
            try:
                self.probes.append(Probe(each, near, margin))
            except NPSVMError:
                if not self.probes:
                    raise
                continue
            values = each.get_params(deep=True)
            self.params.append({n: float(x) for n, x in values.items() if isinstance(x, Real)})

    @property
    def here(self) -> Probe:
        """The probe at the present setting."""
        return self.probes[0]

    def quantity(self, values: list[float | None]) -> Quantity:
        """Return a number and its formula, from its values at the settings (None where it was not found)."""
        now = values[0]
        assert now is not None
        pairs = [(p, x) for p, x in zip(self.params, values, strict=True) if x is not None and np.isfinite(x)]
        formula = fit([p for p, _ in pairs], [x for _, x in pairs], BOUNDS) if len(pairs) > 3 else None
        return Quantity(snapped(now), formula)

    def number(self, value: float) -> Quantity:
        """Return a number that does not depend on the setting, or is known at the present one only."""
        exact = snapped(value)
        return Quantity(exact, Formula((Term(exact),) if exact else ()) if np.isfinite(value) else None)

    def where(self, *quantities: Quantity) -> str:
        """Return the present values of the hyperparameters that quantities depend on, in brackets."""
        names = sorted(set().union(*(q.names for q in quantities)))
        return f" ({', '.join(f'{n} = {self.params[0][n]:.4g}' for n in names)})" if names else ""

    def contrast(self, what: str, declared: Quantity, true: Quantity) -> str:
        """Return the sentence that a coefficient is one thing and the Lagrangian gives another."""
        text = f"{what} is {declared}; the Lagrangian gives {true}{self.where(declared, true)}"
        if (declared.names or true.names) and declared.formula is not None and true.formula is not None:
            text += f", in general {declared.general} against {true.general}"
        return text


def snapped(x: float) -> float:
    """Return the simple fraction that a measured number is, or the number."""
    near = fraction(x, BOUNDS)
    return x if near is None else float(near)


def without_rounding(x: float) -> float:
    """Return zero for what is only the rounding of a measurement."""
    return 0.0 if abs(x) < 1e-6 else x


def alike(one: float, two: float) -> bool:
    """Whether two measured ends of intervals are the same, infinite ones included."""
    return one == two or bool(np.isfinite(one - two) and abs(one - two) <= BOUNDS * max(abs(one), abs(two), 1e-6))


def negated(name: str) -> Change:
    """Return the change that turns the sign of one constraint's multiplier."""

    def change(multipliers: Multipliers) -> Multipliers:
        return {**multipliers, name: -np.asarray(multipliers[name])}

    return change
