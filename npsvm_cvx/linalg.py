"""The factor of ``M = S'S + C1 I`` that every framework dual shares.  Knows no model and no solver."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import blas, lapack, qr, solve_triangular

from .errors import NPSVMError
from .problem import Stack, densified, is_sparse, scaled_rows

Array = NDArray[np.float64]

_TALL = 2**17  # entries of S from which the product S'S is worth its loss of digits, where it loses few
_WELL_CONDITIONED = 1e-11  # reciprocal condition number of M, its columns scaled, from which the product is used
_ROWS_AT_ONCE = 4096  # rows a QR factorisation takes in at a time: memory does not grow with their number


class Factor:
    r"""Triangular factor of :math:`M = S^\top \mathrm{diag}(\mathrm{near})\, S + \mathrm{diag}(c)`.

    ``M = U'U`` with U from the QR factorisation of S stacked on ``diag(sqrt(c))``: the condition number that
    rounding sees is that of the stack, not its square.  Where S has many rows and M is well conditioned, U is M's
    Cholesky factor, at the price of one product ``S'S``.

    Parameters
    ----------
    S : (m, d) array or Stack
        The near rows.
    ridge : float or (d,) array
        ``C1``, or one value per coefficient.  Nonnegative; zero needs S of full column rank.
    near : float or (m,) array
        What each near row's square is multiplied by.
    gram : (d, d) array, optional
        ``S' diag(near) S`` where it is known already; a hint, used as far as conditioning allows.

    Raises
    ------
    NPSVMError
        When M is singular to working precision: the message gives the rank.

    Examples
    --------
    >>> import numpy as np
    >>> S, R = np.array([[1.0, 1.0], [2.0, 1.0]]), np.array([[0.0, 1.0]])
    >>> F = Factor(S, 1.0).whiten(R)
    >>> bool(np.allclose(F @ F.T, R @ np.linalg.inv(S.T @ S + np.eye(2)) @ R.T))
    True
    """

    def __init__(
        self, S: ArrayLike | Stack, ridge: float | Array, *, near: float | Array = 1.0, gram: Array | None = None
    ) -> None:
        rows = Stack.of(S)
        m, d = rows.shape
        c = np.broadcast_to(np.asarray(ridge, dtype=float), (d,))
        if np.any(c < 0) or not np.all(np.isfinite(c)):
            raise NPSVMError(f"the ridge must be nonnegative and finite; found {ridge!r}.")
        self.ridge = c
        found = None
        if gram is not None or (m * d >= _TALL and m >= 2 * d):
            found = _cholesky(rows.gram(near) if gram is None else gram, c)
        self.exact = found is None
        """Whether U is as accurate as a QR factorisation makes it."""
        self.U: Array = np.ascontiguousarray(_triangle(rows, near, c) if found is None else found)

    @cached_property
    def _inverse(self) -> Array:
        return np.asarray(lapack.dtrtri(self.U)[0])

    def whiten(self, R: Any) -> Array:
        """Return F (l x d) with ``F F' = R M^-1 R'``: the margin rows in coordinates where M is the identity.

        It is a plain array, also of sparse rows.
        """
        if not self.exact and R.shape[0] > 4 * len(self.U):
            return np.asarray(R @ self._inverse)
        rows = np.asarray(densified(R), dtype=float)
        return np.ascontiguousarray(solve_triangular(self.U, rows.T, trans="T", check_finite=False).T)

    def lift(self, R: Array, a: Array, w: Array) -> Array:
        """Return the plane ``M^-1 R'a`` of multipliers whose whitened plane is w."""
        return self.unwhiten(w)

    def unwhiten(self, w: Array) -> Array:
        """Return the plane z of a whitened plane ``w = U z``."""
        return self._solve(w, transposed=False)

    def solve(self, B: ArrayLike) -> Array:
        """Return ``M^-1 B`` for B of shape (d,) or (d, k)."""
        return self._solve(self._solve(np.asarray(B, dtype=float), transposed=True), transposed=False)

    def _solve(self, B: Array, transposed: bool) -> Array:
        """Solve with U, or with its transpose."""
        if B.ndim == 1:  # the plain routine: no copy, and no threads for what takes microseconds
            return np.asarray(blas.dtrsv(self.U.T, B, lower=1, trans=not transposed))
        return np.asarray(solve_triangular(self.U, B, trans="T" if transposed else "N", check_finite=False))


def _cholesky(gram: Array, ridge: Array) -> Array | None:
    """Return the Cholesky factor U of ``gram + diag(ridge)``, or None where it would lose too many digits."""
    M = gram.copy()
    M[np.diag_indices(len(M))] += ridge
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        scale = 1 / np.sqrt(np.diag(M))
        M *= scale[:, None] * scale
    if not np.isfinite(M).all():
        return None
    size = np.abs(M).sum(axis=0).max()
    U, info = lapack.dpotrf(M, clean=1, overwrite_a=True)
    if info != 0 or not lapack.dpocon(U, size)[0] >= _WELL_CONDITIONED:
        return None
    return np.ascontiguousarray(U / scale)


def _triangle(rows: Stack, near: float | Array, ridge: Array) -> Array:
    """Return U by QR factorisations of a few thousand rows at a time."""
    m, d = rows.shape
    top = np.diag(np.sqrt(ridge))
    for span, part in rows.chunks(max(_ROWS_AT_ONCE, 2 * d) * d, dense=True):
        weight = near if np.ndim(near) == 0 else np.asarray(near)[span, None]
        top = qr(np.vstack([part * np.sqrt(weight), top]), mode="r", overwrite_a=True, check_finite=False)[0][:d]
    # without column pivoting the diagonal reveals a singular M only where c does not bound it from below
    pivots = np.abs(np.diag(top))
    if np.min(pivots, initial=np.inf) <= np.finfo(float).eps * max(m + d, d) * np.max(pivots, initial=0.0):
        rank = int(np.linalg.matrix_rank(top if rows.sparse else rows.dense()))
        if float(np.min(ridge)) == 0:
            what = "use a larger ridge (C1, eps or delta)"
        else:  # the ridge is lost beside the rows
            what = f"its entries reach {float(np.max(pivots)):.1e}, beside which it vanishes: scale the features"
        raise NPSVMError(
            f"S'S + ridge I is singular to working precision: S has rank {rank} of {d} columns and the ridge is "
            f"{float(np.min(ridge)):g}; {what}."
        )
    return np.asarray(top)


class RowInverse:
    r"""The inverse that the classes' metrics share where coefficients are as many as samples, as with a full kernel.

    For all rows X, of every class, and :math:`\tilde X = \mathrm{diag}(\mathrm{near})^{1/2} X \mathrm{diag}(c)^{-1/2}`,
    it is :math:`T = (I + \tilde X \tilde X^\top)^{-1}`.  Where the rows J are a class's margin rows and the others its
    near rows,

    .. math:: \tilde X_J \tilde M^{-1} \tilde X_J^\top = T_{JJ}^{-1} - I, \qquad
        \tilde M^{-1} = I - \tilde X_S^\top (T_{SS} - T_{SJ} T_{JJ}^{-1} T_{JS}) \tilde X_S

    (inversion by blocks): one product and one factorisation serve every class.  It knows digits of the square of X's
    condition number less, which rounds of refinement restore.

    Parameters
    ----------
    X : (n, d) array, plain or CSR
    ridge : (d,) array
        Positive.
    near : float or (n,) array
        Positive.

    Raises
    ------
    NPSVMError
        Where too few digits would remain.
    """

    def __init__(self, X: Any, ridge: Array, near: float | Array = 1.0) -> None:
        n = X.shape[0]
        c = np.asarray(ridge, dtype=float)
        if not (c > 0).all():
            raise NPSVMError("the ridge must be positive.")
        self.X, self.root, self.weight = X, np.sqrt(c), np.sqrt(np.broadcast_to(np.asarray(near, float), (n,)))
        even = bool((c == c[0]).all())
        scaled = X if even else scaled_rows(X.T, 1 / self.root).T if is_sparse(X) else X / self.root
        B = densified(scaled @ scaled.T)
        if even:
            B /= c[0]
        if (self.weight != 1).any():
            B *= self.weight[:, None] * self.weight
        B[np.diag_indices(n)] += 1.0
        size = max(float(np.abs(B[i : i + 256]).sum(axis=1).max()) for i in range(0, n, 256))  # and no copy of B
        # B is symmetric: its transpose is the Fortran-ordered matrix that LAPACK overwrites without a copy
        L, info = lapack.dpotrf(B.T, lower=1, overwrite_a=1, clean=0)
        if info != 0 or not lapack.dpocon(L, size, uplo="L")[0] >= _WELL_CONDITIONED:
            raise NPSVMError("the rows are too ill-conditioned for a shared inverse.")
        T, _ = lapack.dpotri(L, lower=1, overwrite_c=1)
        self.T = _mirrored(T)

    def of(self, margin: slice) -> ClassFactor:
        """Return the factor of the class whose margin rows these are, all others being near rows."""
        return ClassFactor(self, margin)


class ClassFactor:
    """A class's metric from a :class:`RowInverse`; used as a :class:`Factor` is."""

    exact = False

    def __init__(self, shared: RowInverse, margin: slice) -> None:
        self.shared, self.margin = shared, margin
        block = np.asfortranarray(shared.T[margin, margin])
        self._L, info = lapack.dpotrf(block, lower=1, clean=0)
        inverse, worse = lapack.dpotri(self._L, lower=1)
        if info != 0 or worse != 0:
            raise NPSVMError("the rows are too ill-conditioned for a shared inverse.")
        Q = _mirrored(inverse)
        Q[np.diag_indices(len(Q))] -= 1.0
        # rounding can leave Q indefinite; what is added is of that size, and the next round makes good what it costs
        Q[np.diag_indices(len(Q))] += 1e-12 * float(np.diag(Q).max()) + 1e-14
        F, info = lapack.dpotrf(Q, lower=1, clean=1)
        if info != 0:
            raise NPSVMError("the rows are too ill-conditioned for a shared inverse.")
        self._F = np.ascontiguousarray(F) / shared.weight[margin, None]

    def whiten(self, R: ArrayLike) -> Array:
        """Return F of the class's margin rows, whatever R: they are all there is."""
        return self._F

    def lift(self, R: Array, a: Array, w: Array) -> Array:
        """Return ``M^-1 R'a``."""
        return self.solve(R.T @ a)

    def solve(self, r: Array) -> Array:
        """Return ``M^-1 r``."""
        X, T, J = self.shared.X, self.shared.T, self.margin
        v = r / self.shared.root
        y = self.shared.weight * (X @ (v / self.shared.root))
        y[J] = 0.0
        u = T @ y
        u -= T[:, J] @ lapack.dpotrs(self._L, u[J], lower=1)[0]
        u[J] = 0.0
        return np.asarray((v - (X.T @ (self.shared.weight * u)) / self.shared.root) / self.shared.root)


def _mirrored(lower: Array) -> Array:
    """Copy the lower triangle of a square matrix to its upper one, in place."""
    n = len(lower)
    for i in range(0, n, 256):
        j = min(i + 256, n)
        lower[:i, i:j] = lower[i:j, :i].T
        block = np.tril(lower[i:j, i:j])
        lower[i:j, i:j] = block + np.tril(block, -1).T
    return lower
