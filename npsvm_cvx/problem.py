r"""The problem of one plane, as arrays: what a solver minimises and a certificate speaks of.  numpy alone.

.. math::
    \min_z\; \tfrac12 z^\top M z + \sum_i \phi_i(r_i^\top z), \qquad
    M = S^\top \mathrm{diag}(\mathrm{near})\, S + \mathrm{diag}(\mathrm{ridge})

with :math:`\phi_i` given by its conjugate's numbers, :class:`~npsvm_cvx.terms.Terms`.  Rows may lie in several blocks
(one a class), which are never copied into one matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .terms import Array, Terms

_CHUNK = 2**17  # entries of a stack worked on at once: a copy of them stays in a processor's cache


class Stack:
    """Rows in one or more blocks with as many columns, used as one matrix and never copied into one.

    Parameters
    ----------
    *blocks : (n_j, d) arrays of float

    Examples
    --------
    >>> rows = Stack(np.eye(2), np.ones((1, 2)))
    >>> rows.shape, rows.product(np.array([1.0, 2.0])), rows.adjoint(np.array([1.0, 1.0, 1.0]))
    ((3, 2), array([1., 2., 3.]), array([2., 2.]))
    """

    def __init__(self, *blocks: Array) -> None:
        self.blocks = tuple(np.asarray(block, dtype=float) for block in blocks)
        if not blocks or any(block.ndim != 2 for block in self.blocks):
            raise ValueError("a stack needs one matrix or more.")
        if len({block.shape[1] for block in self.blocks}) != 1:
            raise ValueError(f"blocks of {[block.shape for block in self.blocks]} do not stack.")
        self.ends = np.cumsum([len(block) for block in self.blocks])

    @classmethod
    def of(cls, rows: Array | Stack) -> Stack:
        """Return rows as a stack; one that is already is itself."""
        return rows if isinstance(rows, Stack) else cls(rows)

    def __len__(self) -> int:
        return int(self.ends[-1])

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the one matrix."""
        return len(self), self.blocks[0].shape[1]

    def _parts(self, values: Array) -> list[Array]:
        return np.split(values, self.ends[:-1])

    def product(self, z: Array) -> Array:
        """Return the rows times z, (n,)."""
        found = np.empty(len(self))
        for block, out in zip(self.blocks, self._parts(found), strict=True):
            np.dot(block, z, out=out)
        return found

    def adjoint(self, a: Array) -> Array:
        """Return the transposed rows times a, (d,)."""
        found = np.zeros(self.shape[1])
        for block, part in zip(self.blocks, self._parts(a), strict=True):
            found += block.T @ part
        return found

    def take(self, index: NDArray[np.intp]) -> Array:
        """Return the rows at a sorted index, copied."""
        cuts = np.searchsorted(index, self.ends)
        begins = np.concatenate([[0], self.ends[:-1]])
        parts = np.split(index, cuts[:-1])
        return np.concatenate(
            [block[part - begin] for block, part, begin in zip(self.blocks, parts, begins, strict=True)]
        )

    def gram(self, weights: float | Array = 1.0) -> Array:
        """Return ``rows' diag(weights) rows``, (d, d)."""
        if np.ndim(weights) == 0:
            total = sum(block.T @ block for block in self.blocks)
            return np.asarray(total if weights == 1.0 else weights * total)
        total = np.zeros((self.shape[1], self.shape[1]))
        for span, rows in self.chunks():
            scaled = rows * np.sqrt(np.asarray(weights)[span])[:, None]
            total += scaled.T @ scaled
        return total

    def chunks(self, entries: int = _CHUNK) -> Iterator[tuple[slice, Array]]:
        """Yield the rows a few at a time, with their place in the stack."""
        step = max(1, entries // max(1, self.shape[1]))
        begin = 0
        for block in self.blocks:
            for i in range(0, len(block), step):
                rows = block[i : i + step]
                yield slice(begin + i, begin + i + len(rows)), rows
            begin += len(block)

    def dense(self) -> Array:
        """Return the one matrix; a copy where there are several blocks."""
        return self.blocks[0] if len(self.blocks) == 1 else np.concatenate(self.blocks)

    def finite(self) -> bool:
        """Whether every entry is finite."""
        # a sum is finite only if its terms are, and needs no array of truth values
        with np.errstate(over="ignore", invalid="ignore"):
            return all(np.isfinite(block.sum()) or bool(np.isfinite(block).all()) for block in self.blocks)


@dataclass(frozen=True)
class Problem:
    """One plane's problem.

    Attributes
    ----------
    S, R : Stack
        Near rows (m x d) and margin rows (l x d).
    terms : Terms
        ``h_i``, of the l margin rows.
    ridge : (d,) array
    near : float or (m,) array
        The price of each near row's square.
    gram : (d, d) array, optional
        ``S' diag(near) S`` where it is known; products with M then need no near row.
    """

    S: Stack
    R: Stack
    terms: Terms
    ridge: Array
    near: float | Array = 1.0
    gram: Array | None = None

    def metric(self, z: Array) -> Array:
        """Return ``M z``."""
        if self.gram is not None:
            return self.gram @ z + self.ridge * z
        return self.S.adjoint(self.near * self.S.product(z)) + self.ridge * z

    def residual(self, z: Array, a: Array) -> Array:
        """Return ``R'a - M z``: stationarity."""
        return self.R.adjoint(a) - self.metric(z)

    def smooth(self, z: Array) -> float:
        """Return ``z'Mz / 2``."""
        y = self.S.product(z)
        return float((self.near * y) @ y + self.ridge @ (z * z)) / 2
