"""From (X, y) to the matrices S and R of each class, and from planes to decisions.

Knows rows, kernels, schemes and distances.  Must not know formulations or solvers.

==========  ==================  =======================  ==================================================
scheme      near rows S         margin rows R            a sample belongs to
==========  ==================  =======================  ==================================================
farthest    all classes but k   class k                  the class whose plane is farthest from it
nearest     class k             minus all classes but k  the class whose plane is nearest
==========  ==================  =======================  ==================================================

Yang, Shao, Jiang (2015): ``farthest`` is eqs. (17), (18), ``nearest`` the twin SVMs' (4), (5), (9); kernel rows are
(32) to (36), rectangular ones those of its references [30, 31].
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from .errors import NPSVMError, unknown
from .linalg import Array
from .modeling import Scheme

Distance = Literal["absolute", "euclidean"]
SCHEMES: tuple[str, ...] = get_args(Scheme)
DISTANCES: tuple[str, ...] = get_args(Distance)


class ZeroNormalWarning(UserWarning):
    """A plane with w = 0: it lies at no distance from anything, and the Euclidean rule cannot use it."""


@dataclass(frozen=True)
class Rows:
    """The map from samples to rows: ``[x, 1]``, or ``[K(x, C), 1]`` with C the centres of a kernel expansion.

    Attributes
    ----------
    kernel : str
        "linear" for plain rows, else any name of ``sklearn.metrics.pairwise.pairwise_kernels``.
    centres : (n, p) array or None
        All training samples (the full kernel) or some of them (the rectangular kernel); None for plain rows.
    parameters : dict
        The kernel's: ``gamma``, ``degree``, ``coef0``.

    Examples
    --------
    >>> Rows()([[3.0, 4.0]])
    array([[3., 4., 1.]])
    >>> Rows.of("rbf", [[0.0], [1.0]], gamma=1.0)([[0.0]]).round(3)
    array([[1.   , 0.368, 1.   ]])
    """

    kernel: str = "linear"
    centres: Array | None = None
    parameters: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, kernel: str, centres: ArrayLike, **parameters: Any) -> Rows:
        """Return the rows of a kernel by name, with only the parameters that kernel has."""
        if kernel == "linear":
            return cls()
        if kernel not in PAIRWISE_KERNEL_FUNCTIONS:
            raise unknown("kernel", kernel, PAIRWISE_KERNEL_FUNCTIONS)
        for name, value in parameters.items():
            if name == "gamma" and value is not None and not 0 < value < np.inf:
                raise NPSVMError(f"gamma={value!r} must be positive and finite.")
        kept = {name: value for name, value in parameters.items() if value is not None}
        return cls(kernel, np.array(centres, dtype=float), kept)

    def __call__(self, X: ArrayLike) -> Array:
        """Return the rows of samples X, shape (samples, features + 1) or (samples, centres + 1)."""
        samples = np.asarray(X, dtype=float)
        if self.centres is not None:
            try:
                samples = pairwise_kernels(
                    samples, self.centres, metric=self.kernel, filter_params=True, **self.parameters
                )
            except ValueError as error:  # chi2 of negative values, say
                raise NPSVMError(f"kernel={self.kernel!r} does not suit the data: {error}") from error
        return np.column_stack([samples, np.ones(len(samples))])

    def norms(self, planes: Array) -> Array:
        """Return the norm of each plane's normal: ``|w|``, or ``sqrt(w' K(C, C) w)`` for kernel rows."""
        w = np.atleast_2d(planes)[:, :-1]
        if self.centres is None:
            return np.asarray(np.linalg.norm(w, axis=1))
        gram = self(self.centres)[:, :-1]
        return np.sqrt(np.maximum(np.einsum("ki,ij,kj->k", w, gram, w), 0.0))


def scale_gamma(X: ArrayLike) -> float:
    """Return scikit-learn's ``gamma="scale"``: ``1 / (features * variance of X)``."""
    samples = np.asarray(X, dtype=float)
    variance = float(samples.var())
    return 1.0 / (samples.shape[1] * variance) if variance > 0 else 1.0


def class_matrices(rows: Array, y: ArrayLike, k: object, scheme: Scheme) -> tuple[Array, Array]:
    """Return (S, R) of class ``k``: the near rows and the margin rows.

    Raises
    ------
    NPSVMError
        Unknown scheme; or a class with every sample, or none, whose plane has nothing to keep a distance from.

    Examples
    --------
    >>> S, R = class_matrices(np.array([[1.0, 1.0], [2.0, 1.0]]), ["a", "b"], "a", "nearest")
    >>> S, R
    (array([[1., 1.]]), array([[-2., -1.]]))
    """
    if scheme not in SCHEMES:
        raise unknown("scheme", scheme, SCHEMES)
    own = np.asarray(y) == k
    if not own.any() or own.all():
        raise NPSVMError(f"y: class {k!r} holds {int(own.sum())} of {len(own)} samples; two classes are needed.")
    return (rows[~own], rows[own]) if scheme == "farthest" else (rows[own], -rows[~own])


def distances(rows: Array, planes: Array, norms: Array | None = None) -> Array:
    """Return ``|x z_k|`` (samples x classes), divided by ``norms`` where they are given.

    A plane with w = 0 is at infinite Euclidean distance from everything, its own points included.
    """
    values = np.abs(rows @ np.atleast_2d(planes).T)
    if norms is None:
        return np.asarray(values)
    flat = norms == 0
    if flat.any():
        warnings.warn(
            f"{int(flat.sum())} of {len(norms)} planes have w = 0: their Euclidean distance is infinite. "
            "Large C2 on overlapping classes does this; use distance='absolute' or a smaller C2.",
            ZeroNormalWarning,
            stacklevel=2,
        )
    return np.asarray(np.where(flat, np.inf, values / np.where(flat, 1.0, norms)))


def decide(distance: Array, scheme: Scheme) -> NDArray[np.intp]:
    """Return the index of each sample's class; a tie goes to the first.

    Examples
    --------
    The planes ``x = 0`` and ``2x - 6 = 0``; the point 1.5 is nearer the first by the unnormalised rule.

    >>> rows, planes = np.array([[1.5, 1.0]]), np.array([[1.0, 0.0], [2.0, -6.0]])
    >>> decide(distances(rows, planes), "nearest")
    array([0])
    """
    return distance.argmax(axis=1) if scheme == "farthest" else distance.argmin(axis=1)
