"""Classifiers to compare with that are not formulations: GEPSVM.

Knows planes and scikit-learn's conventions.  Must not know formulations or solvers.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import type_of_target

from .linalg import Array, Factor
from .plane_classifier import PlaneClassifier


class GEPSVM(PlaneClassifier):
    r"""Proximal SVM by generalised eigenvalues: two planes, each near its class and far from the other.

    .. math::
        z_k = \arg\min_{z \ne 0} \frac{|A z|^2 + \delta |z|^2}{|B z|^2}, \qquad z_k = [w_k; b_k]

    with A the rows of class k and B those of the other class: the eigenvector of the smallest eigenvalue of
    :math:`(A^\top A + \delta I) z = \lambda B^\top B z`.  A sample belongs to the nearest plane, by
    :math:`|x z_k| / |w_k|`.

    Parameters
    ----------
    delta : float, default=1e-4
        Tikhonov term; positive, so that the eigenvalue problem is definite whatever B is.
    kernel, gamma, degree, coef0, landmarks
        As in :class:`npsvm_cvx.estimator.NPSVMClassifier`.
    random_state : int, RandomState instance or None, default=None
        Draws the landmarks.

    Attributes
    ----------
    classes_ : (2,) array
    planes_ : (2, d) array
        Of unit length, the largest entry positive.
    coef_, intercept_ : (2, features) and (2,) arrays
        The same in two parts; ``coef_`` with the linear kernel only.
    eigenvalues_ : (2,) array
        The ratio each plane attains; infinite where B z = 0 for every plane, that is for B = 0.
    centres_ : (d - 1, features) array or None
    centre_indices_ : (d - 1,) array of int or None
    n_features_in_ : int
    feature_names_in_ : (features,) array

    Warns
    -----
    ZeroNormalWarning
        A plane with w = 0.

    Notes
    -----
    Computed without squaring: with ``U'U = A'A + delta I`` from a QR factorisation, z is ``U^-1`` times the
    leading right singular vector of ``B U^-1``, and the eigenvalue the inverse square of its singular value.

    References
    ----------
    Mangasarian, Wild (2006), *Multisurface proximal support vector machine classification via generalized
    eigenvalues*, IEEE Transactions on Pattern Analysis and Machine Intelligence 28(1).

    Examples
    --------
    Two crossing lines, which no single plane separates: each class gets its own line.

    >>> X = [[-2, 0], [1, 0], [3, 0], [0, -1], [0, 2], [0, 3]]
    >>> model = GEPSVM().fit(X, ["across"] * 3 + ["up"] * 3)
    >>> abs(model.coef_.round(3))
    array([[0., 1.],
           [1., 0.]])
    >>> model.predict([[-5, 0.1], [0.1, 7]])
    array(['across', 'up'], dtype='<U6')
    """

    scheme_ = "nearest"
    distance_ = "euclidean"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "delta": [Interval(Real, 0.0, None, closed="neither")],
        **PlaneClassifier._row_constraints,
    }

    def __init__(
        self,
        delta: float = 1e-4,
        *,
        kernel: str | Callable[[Array, Array], Array] = "linear",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 1.0,
        landmarks: int | float | ArrayLike | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.delta = delta
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.landmarks = landmarks
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Find the two planes.

        Parameters
        ----------
        X : (samples, features) array-like
            Or, with ``kernel="precomputed"``, the (samples, samples) kernel values.
        y : (samples,) array-like
            Labels of any type scikit-learn takes; two classes.
        sample_weight : (samples,) array-like, optional
            Nonnegative; a sample of weight s counts as s copies of it.

        Returns
        -------
        GEPSVM

        Raises
        ------
        ValueError
            A parameter out of its range, another number of classes, non-finite or sparse values.
        """
        self._validate_params()
        training = self._training(X, y, sample_weight, check_random_state(self.random_state))
        scale = training.centre_scale
        rows = np.sqrt(training.weights)[:, None] * training.rows * scale
        first, second = rows[training.codes == 0], rows[training.codes == 1]
        found = [_ratio_plane(A, B, float(self.delta)) for A, B in ((first, second), (second, first))]
        self.eigenvalues_ = np.array([value for _, value in found])
        self._keep_planes(np.array([_normalised(scale * z) for z, _ in found]), training)
        return self

    def _check_class_count(self, labels: NDArray[Any]) -> None:
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. "
                f"The type of the target is {type_of_target(labels)}, "
                f"{len(self.classes_)} classes; use OneVsRestClassifier or OneVsOneClassifier around it."
            )


def _ratio_plane(A: Array, B: Array, delta: float) -> tuple[Array, float]:
    """Return the z of least ``(|A z|^2 + delta |z|^2) / |B z|^2``, and that ratio."""
    factor = Factor(A, delta)
    B = factor.whiten(B)
    # of the largest singular value the Gram matrix loses no digits, and it is a fraction of the work
    tall = len(B) > B.shape[1]
    gram = B.T @ B if tall else B @ B.T
    last = len(gram) - 1
    value, vector = eigh(gram, subset_by_index=(last, last), check_finite=False)
    right = vector[:, 0] if tall else B.T @ vector[:, 0]
    return factor.unwhiten(right), 1 / float(value[0]) if value[0] > 0 else np.inf


def _normalised(z: Array) -> Array:
    return np.asarray(z / np.linalg.norm(z) * np.sign(z[np.argmax(np.abs(z))]))
