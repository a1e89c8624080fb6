"""The factor of ``M = S'S + C1 I`` that every framework dual shares.  Knows no model and no solver."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr, solve_triangular

from .errors import NPSVMError

Array = NDArray[np.float64]


class Factor:
    r"""Triangular factor of :math:`M = S^\top S + \mathrm{diag}(c)`, never forming M.

    ``M = U'U`` with U from the QR factorisation of S stacked on ``diag(sqrt(c))``: the condition number that
    rounding sees is that of the stack, not its square.

    Parameters
    ----------
    S : (m, d) array
        The near rows.
    ridge : float or (d,) array
        ``C1``, or one value per coefficient.  Nonnegative; zero needs S of full column rank.

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

    def __init__(self, S: ArrayLike, ridge: float | Array) -> None:
        near = np.asarray(S, dtype=float)
        d = near.shape[1]
        c = np.broadcast_to(np.asarray(ridge, dtype=float), (d,))
        if np.any(c < 0) or not np.all(np.isfinite(c)):
            raise NPSVMError(f"the ridge must be nonnegative and finite; found {ridge!r}.")
        self.ridge = c
        stack = np.vstack([near, np.diag(np.sqrt(c))])
        self.U: Array = qr(stack, mode="r", overwrite_a=True, check_finite=False)[0][:d]
        # without column pivoting the diagonal reveals a singular M only where c does not bound it from below
        pivots = np.abs(np.diag(self.U))
        if np.min(pivots, initial=np.inf) <= np.finfo(float).eps * max(stack.shape) * np.max(pivots, initial=0.0):
            rank = int(np.linalg.matrix_rank(near))
            raise NPSVMError(
                f"S'S + C1 I is singular: S has rank {rank} of {d} columns and the ridge is "
                f"{float(np.min(c)):g}; use a larger ridge (C1 or eps)."
            )

    def whiten(self, R: ArrayLike) -> Array:
        """Return F (l x d) with ``F F' = R M^-1 R'``: the margin rows in coordinates where M is the identity."""
        rows = np.asarray(R, dtype=float)
        return np.ascontiguousarray(solve_triangular(self.U, rows.T, trans="T", check_finite=False).T)

    def unwhiten(self, w: Array) -> Array:
        """Return the plane z of a whitened plane ``w = U z``."""
        return np.asarray(solve_triangular(self.U, w, check_finite=False))

    def solve(self, B: ArrayLike) -> Array:
        """Return ``M^-1 B`` for B of shape (d,) or (d, k)."""
        right = solve_triangular(self.U, np.asarray(B, dtype=float), trans="T", check_finite=False)
        return np.asarray(solve_triangular(self.U, right, check_finite=False))
