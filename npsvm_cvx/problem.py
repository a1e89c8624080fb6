r"""The problem of one plane, as arrays: what a solver minimises and a certificate speaks of.  numpy alone.

.. math::
    \min_z\; \tfrac12 z^\top M z + \sum_i \phi_i(r_i^\top z), \qquad
    M = S^\top \mathrm{diag}(\mathrm{near})\, S + \mathrm{diag}(\mathrm{ridge})

with :math:`\phi_i` given by its conjugate's numbers, :class:`~npsvm_cvx.terms.Terms`.  Rows may lie in several blocks
(one a class), which are never copied into one matrix, and a block may be sparse: a CSR array, which is known by its
methods, so that SciPy is imported by those alone who have one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .terms import Array, Terms

_CHUNK = 2**17  # entries of a stack worked on at once: a copy of them stays in a processor's cache


def is_sparse(rows: Any) -> bool:
    """Whether the rows are a SciPy sparse array."""
    return hasattr(rows, "tocsr")


def densified(rows: Any) -> Array:
    """Return rows as a plain array."""
    return np.asarray(rows.toarray() if is_sparse(rows) else rows)


def span_of(rows: Any, span: slice) -> Any:
    """Return rows of a slice, not copied, of a sparse array neither."""
    if not is_sparse(rows):
        return rows[span]
    begin, end, _ = span.indices(rows.shape[0])
    first, last = rows.indptr[begin], rows.indptr[end]
    part = type(rows)((end - begin, rows.shape[1]), dtype=rows.dtype)
    # by assignment: the constructor copies what is a small part of something
    part.data, part.indices, part.indptr = (
        rows.data[first:last],
        rows.indices[first:last],
        rows.indptr[begin : end + 1] - first,
    )
    part.has_canonical_format = rows.has_canonical_format  # whoever put it in order would do so in shared memory
    return part


def canonical(rows: Any) -> Any:
    """Return a sparse array with its entries in order and none twice; itself where it is so already."""
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def scaled_rows(rows: Any, factors: Array) -> Any:
    """Return each row times its factor."""
    return rows.multiply(factors[:, None]).tocsr() if is_sparse(rows) else rows * factors[:, None]


def joined(blocks: Any) -> Any:
    """Return blocks of rows as one matrix, sparse if one of them is; a single block as it is."""
    if len(blocks) == 1:
        return blocks[0]
    if not any(is_sparse(block) for block in blocks):
        return np.concatenate(blocks)
    from scipy.sparse import vstack

    return vstack(blocks, format="csr")


class Stack:
    """Rows in one or more blocks with as many columns, used as one matrix and never copied into one.

    Parameters
    ----------
    *blocks : (n_j, d) arrays of float, plain or CSR

    Examples
    --------
    >>> rows = Stack(np.eye(2), np.ones((1, 2)))
    >>> rows.shape, rows.product(np.array([1.0, 2.0])), rows.adjoint(np.array([1.0, 1.0, 1.0]))
    ((3, 2), array([1., 2., 3.]), array([2., 2.]))
    """

    def __init__(self, *blocks: Array) -> None:
        self.blocks: tuple[Any, ...] = tuple(
            canonical(block) if is_sparse(block) else np.asarray(block, dtype=float) for block in blocks
        )
        if not blocks or any(block.ndim != 2 for block in self.blocks):
            raise ValueError("a stack needs one matrix or more.")
        if len({block.shape[1] for block in self.blocks}) != 1:
            raise ValueError(f"blocks of {[block.shape for block in self.blocks]} do not stack.")
        self.ends = np.cumsum([block.shape[0] for block in self.blocks])
        self.sparse = any(is_sparse(block) for block in self.blocks)

    @classmethod
    def of(cls, rows: Any) -> Stack:
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
            if is_sparse(block):
                out[:] = block @ z
            else:
                np.dot(block, z, out=out)
        return found

    def adjoint(self, a: Array) -> Array:
        """Return the transposed rows times a, (d,)."""
        found = np.zeros(self.shape[1])
        for block, part in zip(self.blocks, self._parts(a), strict=True):
            found += block.T @ part
        return found

    def take(self, index: NDArray[np.intp]) -> Any:
        """Return the rows at a sorted index, copied; sparse where they are."""
        cuts = np.searchsorted(index, self.ends)
        begins = np.concatenate([[0], self.ends[:-1]])
        parts = np.split(index, cuts[:-1])
        return joined([block[part - begin] for block, part, begin in zip(self.blocks, parts, begins, strict=True)])

    def gram(self, weights: float | Array = 1.0) -> Array:
        """Return ``rows' diag(weights) rows``, (d, d)."""
        if np.ndim(weights) == 0:
            total = sum(densified(block.T @ block) for block in self.blocks)
            return np.asarray(total if weights == 1.0 else weights * total)
        total = np.zeros((self.shape[1], self.shape[1]))
        # a product of sparse rows is as large as the whole, however few they are
        for span, rows in self.chunks(_MANY_ENTRIES if self.sparse else _CHUNK):
            scaled = scaled_rows(rows, np.sqrt(np.asarray(weights)[span]))
            total += densified(scaled.T @ scaled)
        return total

    def chunks(self, entries: int = _CHUNK, *, dense: bool = False) -> Iterator[tuple[slice, Any]]:
        """Yield the rows a few at a time, with their place in the stack; as plain arrays if ``dense``."""
        begin = 0
        for block in self.blocks:
            n, d = block.shape
            width = d if dense or not is_sparse(block) else block.nnz / max(1, n) + 1
            step = max(1, int(entries / max(1, width)))
            for i in range(0, n, step):
                rows = span_of(block, slice(i, i + step))
                yield slice(begin + i, begin + i + rows.shape[0]), densified(rows) if dense else rows
            begin += n

    def dense(self) -> Array:
        """Return the one matrix; a copy where there are several blocks."""
        return densified(joined(self.blocks))

    def finite(self) -> bool:
        """Whether every entry is finite."""
        # a sum is finite only if its terms are, and needs no array of truth values
        entries = [block.data if is_sparse(block) else block for block in self.blocks]
        with np.errstate(over="ignore", invalid="ignore"):
            return all(np.isfinite(each.sum()) or bool(np.isfinite(each).all()) for each in entries)


_MANY_ENTRIES = 2**24


@dataclass(frozen=True)
class Problem:
    """One plane's problem.

    Attributes
    ----------
    S, R : Stack
        Near rows (m x d) and margin rows (l x d), plain or sparse.
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
