"""What a dual's multipliers cost, sample by sample: four numbers each.  numpy alone; knows no solver."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


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

    def at(self, index: Any) -> Terms:
        """Return the terms at any index of their arrays, without the constant."""
        return Terms(self.linear[index], self.curvature[index], self.lower[index], self.upper[index])

    def times(self, s: float | Array) -> Terms:
        """Return the terms of s times the loss: ``s h(a / s)``; without the constant where s differs among them."""
        constant = self.constant * s if np.ndim(s) == 0 else 0.0
        return Terms(self.linear, self.curvature / s, s * self.lower, s * self.upper, float(constant))

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
