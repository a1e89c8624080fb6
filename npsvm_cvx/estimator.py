"""NPSVMClassifier: any formulation as a scikit-learn classifier.

Knows rows, compiled duals and solvers through their modules, and scikit-learn's conventions. Must not know
any formulation by name, the default's apart.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state, compute_class_weight, gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .catalog import resolve
from .compile import BoxLP, BoxQP, Compiled, NotCompilable, compile
from .errors import unknown
from .linalg import Array
from .modeling import Formulation, Loss, Scheme
from .planes import DISTANCES, SCHEMES, Distance, Rows, ZeroNormalWarning, class_matrices, distances
from .proximal import proximal_point
from .solution import Solution, solve
from .solvers import SOLVERS
from .sor import SORResult
from .working_set import minimise

_BLOCK = 2**22  # entries of the rows held at once in prediction: 32 MB
_FLAT = 1e-10  # a plane whose value varies by less than this times |b| over the training samples has w = 0
_LARGEST_REPETITION = 100_000  # rows that whole-number weights may grow to with a general solver
_SUPPORT = 1e-8  # multipliers below this times the class's largest count as zero
_FALLBACK = "clarabel"


@dataclass(frozen=True)
class _Training:
    """What a fit works on: the samples of positive weight, their rows, and what a weight means."""

    rows: Array  # (n, d)
    codes: NDArray[np.intp]  # (n,), indices into classes_
    weights: Array  # (n,), positive: how much a row costs
    copies: Array  # (n,), positive: how often a sample is there, its class's weight apart
    kept: NDArray[np.intp]  # (n,), positions among the samples given
    given: int  # samples before those of weight zero were dropped
    own_centres: bool  # whether centre i is sample i, so that a repeated sample is a repeated centre

    @property
    def weighted(self) -> bool:
        return bool((self.weights != 1.0).any() or (self.copies != 1.0).any())

    @property
    def centre_scale(self) -> Array:
        """Column scales that make a centre of weight m equal to m copies under a squared norm.

        m copies share a coefficient v at the price ``m (v/m)^2 = v^2 / m``, which is that of ``u = v /
        sqrt(m)``.
        """
        scale = np.ones(self.rows.shape[1])
        if self.own_centres:
            scale[:-1] = np.sqrt(self.copies)
        return scale

    def repeated(self, obstacle: str) -> tuple[_Training, NDArray[np.intp]]:
        """Return the set with every sample written out as often as its weight says, and the columns used."""
        if not self.weighted and (self.copies == 1.0).all():
            return self, np.arange(self.rows.shape[1])
        whole = all((np.rint(each) == each).all() for each in (self.weights, self.copies))
        if not whole or self.weights.sum() > _LARGEST_REPETITION:
            raise ValueError(
                f"sample_weight, class_weight: {obstacle}. Only whole-number weights are possible then, "
                f"which repeat samples, up to {_LARGEST_REPETITION} rows in all; use solver='sor' with a "
                "formulation whose dual it solves."
            )
        index = np.repeat(np.arange(len(self.weights)), self.weights.astype(int))
        columns = np.arange(self.rows.shape[1])
        if self.own_centres:
            columns = np.append(np.repeat(columns[:-1], self.copies.astype(int)), columns[-1])
        rows = self.rows[np.ix_(index, columns)]
        ones = np.ones(len(index))
        return replace(
            self, rows=rows, codes=self.codes[index], weights=ones, copies=ones, kept=self.kept[index]
        ), columns


class _PlaneClassifier(ClassifierMixin, BaseEstimator):
    """What classifiers by distances to planes share: validated samples, kernel rows, decisions.

    Subclasses have the parameters kernel, gamma, degree, coef0, landmarks and random_state, set ``planes_``
    through ``_keep_planes``, and before that ``scheme_`` and ``distance_``.
    """

    _row_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [str, callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "degree": [Interval(Real, 1.0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "landmarks": [
            None,
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0.0, 1.0, closed="right"),
            "array-like",
        ],
        "random_state": ["random_state"],
    }

    kernel: str | Callable[[Array, Array], Array]
    gamma: str | float
    degree: float
    coef0: float
    landmarks: Any
    random_state: Any
    scheme_: Scheme
    distance_: Distance

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = _named(self.kernel, "precomputed")
        return tags

    # --- fitting -----------------------------------------------------------------------------------------

    def _training(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, rng: np.random.RandomState
    ) -> _Training:
        """Validate, drop samples of weight zero, set classes_ and the centres, and build the rows."""
        samples, labels = validate_data(self, X, y, dtype=np.float64, order="C")
        check_classification_targets(labels)
        if sample_weight is None:
            weights = np.ones(len(samples))
        else:
            weights = _check_sample_weight(sample_weight, samples, dtype=np.float64, ensure_non_negative=True)
        kept = np.flatnonzero(weights > 0)
        self.classes_, codes = np.unique(labels[kept], return_inverse=True)
        count = len(self.classes_)
        if count < 2:
            zero = "" if len(kept) == len(samples) else " of nonzero sample_weight"
            found = f"only one class: {self.classes_[0]!r}" if count else "none"
            raise ValueError(
                f"This solver needs samples of at least 2 classes in the data{zero}, but the data contains {found}"
            )
        self._check_class_count(labels)
        self._check_kernel(samples)
        copies = weights[kept]
        costs = copies * self._weights_by_class(codes, copies)[codes]
        own_centres = self._set_centres(samples, kept, codes, copies, rng)
        with np.errstate(over="ignore", invalid="ignore"):
            rows = self._rows(samples[kept])
        if not np.isfinite(rows).all():
            raise ValueError(
                f"kernel={self.kernel!r} gives values that are not finite on these samples; scale the "
                "features, or change gamma, degree or coef0."
            )
        return _Training(rows, codes, costs, copies, kept, len(samples), own_centres)

    def _weights_by_class(self, codes: NDArray[np.intp], weights: Array) -> Array:
        return np.ones(len(self.classes_))

    def _check_class_count(self, labels: NDArray[Any]) -> None:
        """Refuse a number of classes the method does not have."""

    def _check_kernel(self, samples: Array) -> None:
        if _named(self.kernel, "linear") and self.landmarks is not None:
            raise ValueError("landmarks must be None with kernel='linear', which has no centres.")
        if _named(self.kernel, "precomputed") and samples.shape[0] != samples.shape[1]:
            raise ValueError(
                "kernel='precomputed': X must be the square matrix of kernel values between the training "
                f"samples; found shape {samples.shape}."
            )

    def _set_centres(
        self,
        samples: Array,
        kept: NDArray[np.intp],
        codes: NDArray[np.intp],
        weights: Array,
        rng: np.random.RandomState,
    ) -> bool:
        """Set the map to rows; return whether the centres are the kept samples, one each."""
        self.centres_: Array | None = None
        self.centre_indices_: NDArray[np.intp] | None = None
        self._map: Rows | None = None
        if _named(self.kernel, "linear"):
            self._map = Rows()
            return False
        precomputed = _named(self.kernel, "precomputed")
        if self.landmarks is None:
            self.centre_indices_ = kept
        elif isinstance(self.landmarks, Real):
            size = self._landmark_count(len(kept))
            self.centre_indices_ = kept[_stratified(codes, size, rng)]
        elif precomputed:
            raise ValueError("landmarks must be None, a count or a fraction with kernel='precomputed'; found an array.")
        else:
            self.centres_ = check_array(self.landmarks, dtype=np.float64, order="C", copy=True, input_name="landmarks")
            if self.centres_.shape[1] != samples.shape[1]:
                raise ValueError(f"landmarks have {self.centres_.shape[1]} features; X has {samples.shape[1]}.")
        if precomputed:
            return self.landmarks is None
        if self.centre_indices_ is not None:
            self.centres_ = samples[self.centre_indices_]
        if isinstance(self.kernel, str):
            assert self.centres_ is not None
            gamma = self._gamma(samples[kept], weights)
            self._map = Rows.of(self.kernel, self.centres_, gamma=gamma, degree=self.degree, coef0=self.coef0)
        return self.landmarks is None

    def _gamma(self, samples: Array, weights: Array) -> float:
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        features = int(samples.shape[1])
        if self.gamma == "auto":
            return 1.0 / features
        # weighted so that a weight of two is a sample written twice
        share = weights / (weights.sum() * features)
        mean = float((share @ samples).sum())
        variance = float((share @ np.square(samples - mean)).sum())
        scale: float = 1.0 / (features * variance) if variance > 0 else 1.0
        return scale

    def _landmark_count(self, n: int) -> int:
        classes, asked = len(self.classes_), self.landmarks
        if not isinstance(asked, Integral):
            return min(n, max(classes, round(float(asked) * n)))
        if not classes <= int(asked) <= n:
            raise ValueError(
                f"landmarks={asked} must lie between the number of classes, {classes}, and of samples of "
                f"nonzero weight, {n}."
            )
        return int(asked)

    def _rows(self, samples: Array) -> Array:
        if self._map is not None:
            return self._map(samples)
        if isinstance(self.kernel, str):  # precomputed
            values = samples[:, self.centre_indices_]
        else:
            assert self.centres_ is not None
            values = np.asarray(self.kernel(samples, self.centres_), dtype=np.float64)
            expected = (len(samples), len(self.centres_))
            if values.shape != expected:
                raise ValueError(
                    f"kernel must return a matrix with a row a sample and a column a centre, {expected}; "
                    f"found shape {values.shape}."
                )
        return np.column_stack([values, np.ones(len(values))])

    def _keep_planes(self, planes: Array, training: _Training) -> None:
        """Set planes_ and the norms of their normals; warn of a plane without one where the rule divides."""
        self.planes_ = planes
        if self.distance_ == "absolute":
            self._norms: Array | None = None
            return
        w = planes[:, :-1]
        if _named(self.kernel, "linear"):
            norms = np.linalg.norm(w, axis=1)
        else:
            gram = self._centre_gram(training)
            norms = np.sqrt(np.maximum(np.einsum("ki,ki->k", w @ gram, w), 0.0))
        reach = np.abs(training.rows[:, :-1] @ w.T).max(axis=0)
        norms[reach <= _FLAT * np.abs(planes[:, -1])] = 0.0
        self._norms = norms
        if (norms == 0).any():
            which = ", ".join(str(label) for label in self.classes_[norms == 0])
            use = "never" if self.scheme_ == "nearest" else "always"
            warnings.warn(
                f"{type(self).__name__}: the plane of class {which} has w = 0 and lies at infinite Euclidean "
                f"distance from every sample, so it is {use} the {self.scheme_}. Large C2 on overlapping "
                "classes does this; use distance='absolute', a smaller C2, or a kernel.",
                ZeroNormalWarning,
                stacklevel=3,
            )

    def _centre_gram(self, training: _Training) -> Array:
        """Return ``K(C, C)``, read off the training rows where the centres are training samples."""
        if self.centre_indices_ is not None:
            where = np.searchsorted(training.kept, self.centre_indices_)
            return training.rows[where, :-1]
        assert self.centres_ is not None
        return self._rows(self.centres_)[:, :-1]

    # --- the fitted classifier ---------------------------------------------------------------------------

    @property
    def coef_(self) -> Array:
        """The normals w of the planes (classes x features); with kernel="linear" only."""
        self._only_linear("coef_")
        return self.planes_[:, :-1]

    @property
    def intercept_(self) -> Array:
        """The intercepts b of the planes (classes,)."""
        return self.planes_[:, -1]

    def _only_linear(self, name: str) -> None:
        if not _named(self.kernel, "linear"):
            raise AttributeError(f"{name} is only there with kernel='linear'; planes_ has the expansion coefficients.")

    def plane_distances(self, X: ArrayLike) -> Array:
        """Return the distance of each sample to each class's plane, ``|x z_k|`` or ``|x z_k| / |w_k|``.

        Parameters
        ----------
        X : (samples, features) array-like
            Or kernel values with the training samples, (samples, training samples), where they are
            precomputed.

        Returns
        -------
        (samples, classes) array
            In the order of ``classes_``. Euclidean distances to a plane with w = 0 are the largest float:
            infinite for every purpose, and finite for scikit-learn's metrics.
        """
        check_is_fitted(self)
        samples = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        found = np.empty((len(samples), len(self.planes_)))
        for block in gen_batches(len(samples), max(1, _BLOCK // self.planes_.shape[1])):
            found[block] = distances(self._rows(samples[block]), self.planes_)
        if self._norms is None:
            return found
        flat = self._norms == 0
        with np.errstate(over="ignore"):
            found /= np.where(flat, 1.0, self._norms)
        found[:, flat] = np.inf
        return np.minimum(found, np.finfo(float).max)

    def decision_function(self, X: ArrayLike) -> Array:
        r"""Return scores: for two classes one a sample, positive for ``classes_[1]``; for more, one a class.

        With :math:`\delta_k` the distance to the plane of class k, the score of class k is :math:`\delta_k`
        where a sample belongs to the farthest plane and :math:`-\delta_k` where it belongs to the nearest;
        two classes have the difference of their scores.

        Parameters
        ----------
        X : (samples, features) array-like
            Or kernel values with the training samples, (samples, training samples), where they are
            precomputed.

        Returns
        -------
        (samples,) or (samples, classes) array
        """
        found = self.plane_distances(X)
        scores = found if self.scheme_ == "farthest" else -found
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each sample: the largest score's, the first of ``classes_`` where scores tie.

        Parameters
        ----------
        X : (samples, features) array-like
            Or kernel values with the training samples, (samples, training samples), where they are
            precomputed.

        Returns
        -------
        (samples,) array
        """
        scores = self.decision_function(X)
        index = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[index])


def _named(kernel: object, name: str) -> bool:
    return isinstance(kernel, str) and kernel == name


def _stratified(codes: NDArray[np.intp], size: int, rng: np.random.RandomState) -> NDArray[np.intp]:
    """Return sorted positions of ``size`` random samples, each class in proportion and at least once."""
    counts = np.bincount(codes)
    share = counts * (size / len(codes))
    quota = np.maximum(1, np.floor(share).astype(int))
    while quota.sum() < size:
        quota[np.argmax(np.where(quota < counts, share - quota, -np.inf))] += 1
    while quota.sum() > size:
        quota[np.argmax(np.where(quota > 1, quota - share, -np.inf))] -= 1
    drawn = [rng.choice(np.flatnonzero(codes == k), int(quota[k]), replace=False) for k in range(len(counts))]
    return np.sort(np.concatenate(drawn))


class NPSVMClassifier(_PlaneClassifier):
    r"""Nonparallel-hyperplane SVM of any formulation: one plane a class, the farthest or the nearest decides.

    .. math::
        \min_{z_k} \tfrac12 |S_k z_k|^2 + \tfrac{C_1}{2} |z_k|^2 + C_2 \sum_i L(t_i), \qquad t = R_k z_k,\;
        z_k = [w_k; b_k]

    is the shape most formulations share; the formulation's file has its own. A sample belongs to
    :math:`\arg\max_k |x z_k|` (``farthest``) or :math:`\arg\min_k |x z_k| / |w_k|` (``nearest``), x being its
    row ``[x, 1]`` or ``[K(x, C), 1]``.

    Parameters
    ----------
    formulation : str, path, class or object, default="hnpsvm"
        A name of :func:`npsvm_cvx.available`, a ``.py`` file, or a Formulation or Loss (class or object). Its
        hyperparameters are set as ``formulation__C1`` and so on, also where it is given by name: setting one
        turns the name into an object. A Loss object has its own hyperparameters only; ``Framework(loss)`` has
        C1 and C2.
    kernel : str or callable, default="linear"
        "linear", "precomputed", a name of :func:`sklearn.metrics.pairwise.pairwise_kernels`, or a function of
        two sample matrices that returns the matrix of kernel values.
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel coefficient: ``1 / (features * variance of X)``, ``1 / features``, or a positive number.
    degree : float, default=3
        Of the polynomial kernel; one at least.
    coef0 : float, default=1.0
        Constant of the polynomial and sigmoid kernels.
    landmarks : int, float, array-like or None, default=None
        Centres C of the kernel rows: a number or fraction of training samples, drawn at random in proportion
        to the classes (at least one of each); or the centres themselves (the rectangular kernel). None takes
        every training sample.
    scheme : {"farthest", "nearest"} or None, default=None
        Which rows a plane keeps near and which at a distance; None takes the formulation's own.
    distance : {"absolute", "euclidean"} or None, default=None
        ``|x z|``, or ``|x z| / |w|`` with :math:`\sqrt{w^\top K(C, C) w}` for the norm of kernel planes. None
        is "absolute" for ``farthest`` and "euclidean" for ``nearest``.
    solver : str, default="sor"
        "sor", or a general solver (clarabel, osqp, ecos, scs, highs). A formulation whose dual "sor" does not
        solve is handed to clarabel, as ``certificate_`` then says.
    tol : float, default=1e-8
        Relative duality gap asked for.
    max_iter : int or None, default=None
        Sweeps of SOR (None: 10,000, and 100,000 for linear programs), or the general solver's iterations.
    class_weight : dict, "balanced" or None, default=None
        Multiplies the sample weights, class by class.
    n_jobs : int or None, default=None
        Classes fitted at a time, by joblib.
    random_state : int, RandomState instance or None, default=None
        Draws the landmarks and SOR's order of samples.
    verbose : int, default=0
        Passed to joblib and, if positive, to the general solver.

    Attributes
    ----------
    classes_ : (classes,) array
    planes_ : (classes, d) array
        The planes ``[w; b]``, in the order of ``classes_``; w over features, or over centres.
    coef_, intercept_ : (classes, features) and (classes,) arrays
        The same in two parts; ``coef_`` with the linear kernel only.
    dual_coef_ : (classes, samples) array
        The multiplier of each training sample's margin; zero where it is a near row of that class's plane.
        NaN where a general solver has no multiplier of a constraint named [margin].
    support_ : (support samples,) array of int
        Samples whose multiplier is nonzero for some class (above 1e-8 of the class's largest).
    centres_ : (d - 1, features) array or None
    centre_indices_ : (d - 1,) array of int or None
        Where the centres are training samples.
    certificate_ : list of dict
        One a class: ``primal``, ``dual``, ``gap``, ``relative_gap``, ``rigorous`` (False: evaluated in
        floating point), ``solver``, ``status``, ``converged``, ``iterations``.
    n_iter_ : int
        Most sweeps a class took; at least one.
    formulation_ : Formulation
        The one that was fitted.
    scheme_, distance_ : str
        The ones in use.
    n_features_in_ : int
    feature_names_in_ : (features,) array
        Where X has string column names.

    Warns
    -----
    ConvergenceWarning
        A class whose relative gap is above ``tol``; the message gives the gap reached.
    ZeroNormalWarning
        A plane with w = 0 under "euclidean".

    Notes
    -----
    A sample of weight s counts as s copies of it: s multiplies its :math:`C_2` where it is a margin row, its
    :math:`(x z)^2` (or :math:`|x z|`) where it is a near row, and, where it is a centre of the full kernel,
    divides the price of its squared coefficient; a weight of zero leaves the sample out. Class weights do the
    first two. Weights other than whole numbers need ``solver="sor"`` and a dual it solves.

    Features are used as they are, and most formulations penalise b: scale them first, in a Pipeline. X must
    be dense: whitened rows are dense whatever the features are.

    References
    ----------
    Yang, Shao, Jiang (2015), *A learning framework of nonparallel hyperplanes classifier*, eqs. (17), (18),
    (31)-(36).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NPSVMClassifier("hnpsvm", kernel="rbf", random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9, [c["converged"] for c in model.certificate_]
    (True, [True, True, True])

    A grid over names and their hyperparameters:

    >>> from sklearn.model_selection import GridSearchCV
    >>> grid = {"formulation": ["hnpsvm", "ls_twsvm"], "formulation__C1": [0.1, 1.0]}
    >>> search = GridSearchCV(NPSVMClassifier(kernel="rbf", random_state=0), grid).fit(X, y)
    >>> bool(search.best_score_ > 0.9), sorted(search.best_params_)
    (True, ['formulation', 'formulation__C1'])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "formulation": [str, Path, type, Formulation, Loss],
        **_PlaneClassifier._row_constraints,
        "scheme": [None, str],
        "distance": [None, str],
        "solver": [str],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "max_iter": [None, Interval(Integral, 1, None, closed="left")],
        "class_weight": [None, StrOptions({"balanced"}), dict],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        formulation: str | Path | type[Formulation] | type[Loss] | Formulation | Loss = "hnpsvm",
        *,
        kernel: str | Callable[[Array, Array], Array] = "linear",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 1.0,
        landmarks: int | float | ArrayLike | None = None,
        scheme: Scheme | None = None,
        distance: Distance | None = None,
        solver: str = "sor",
        tol: float = 1e-8,
        max_iter: int | None = None,
        class_weight: dict[Any, float] | str | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.formulation = formulation
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.landmarks = landmarks
        self.scheme = scheme
        self.distance = distance
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``formulation__NAME`` also where the formulation is a name, a path or a class.

        It is then replaced by the object it stands for, with that hyperparameter set.

        Returns
        -------
        NPSVMClassifier

        Examples
        --------
        >>> NPSVMClassifier("tbsvm").set_params(formulation__C2=4.0).formulation
        TBSVM(C2=4.0)
        """
        if "formulation" in params:
            params = dict(params)
            self.formulation = params.pop("formulation")
        nested = any(name.startswith("formulation__") for name in params)
        if nested and isinstance(self.formulation, str | Path | type):
            self.formulation = resolve(self.formulation)
        super().set_params(**params)
        return self

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Find the plane of each class.

        Parameters
        ----------
        X : (samples, features) array-like
            Or, with ``kernel="precomputed"``, the (samples, samples) kernel values.
        y : (samples,) array-like
            Labels of any type; two classes or more.
        sample_weight : (samples,) array-like, optional
            Nonnegative.

        Returns
        -------
        NPSVMClassifier

        Raises
        ------
        ValueError
            A parameter out of its range, one class, non-finite or sparse values, weights that cannot be
            honoured; the message names the argument.
        """
        self._validate_params()
        self._check_names()
        rng = check_random_state(self.random_state)
        formulation: Formulation = clone(resolve(self.formulation))
        formulation.check_hyperparameters()
        self.formulation_ = formulation
        training = self._training(X, y, sample_weight, rng)
        self.scheme_ = formulation.scheme if self.scheme is None else self.scheme
        default: Distance = "absolute" if self.scheme_ == "farthest" else "euclidean"
        self.distance_ = default if self.distance is None else self.distance
        solver, compiled, obstacle = self.solver.lower(), None, f"solver={self.solver!r} takes no weights"
        if solver == "sor":
            try:
                compiled = compile(formulation)
            except NotCompilable as error:
                solver, obstacle = _FALLBACK, f"SOR does not solve {type(formulation).__name__} ({error})"
        seed = int(rng.randint(2**31 - 1))
        if compiled is not None:
            options: dict[str, Any] = {"tol": self.tol, "random_state": seed}
            if self.max_iter is not None:
                options["max_sweeps"] = self.max_iter
            tasks = [delayed(_by_sor)(compiled, training, self.scheme_, k, options) for k in range(len(self.classes_))]
        else:
            options = {
                "tol": self.tol,
                "max_iter": self.max_iter,
                "solver": solver,
                "verbose": self.verbose > 0,
            }
            written, columns = training.repeated(obstacle)
            tasks = [
                delayed(_by_general_solver)(
                    formulation, written, columns, training.rows.shape[1], self.scheme_, k, options
                )
                for k in range(len(self.classes_))
            ]
        # SOR and LAPACK release the interpreter's lock; building CVXPY problems does not
        prefer = "threads" if compiled is not None else "processes"
        found: list[_Plane] = Parallel(n_jobs=self.n_jobs, verbose=int(self.verbose), prefer=prefer)(tasks)
        self._keep(found, training)
        self._keep_planes(np.array([plane.solution.plane for plane in found]), training)
        self._warn_of_gaps([plane.solution for plane in found])
        return self

    # --- parts of fit ------------------------------------------------------------------------------------

    def _check_names(self) -> None:
        if self.scheme is not None and self.scheme not in SCHEMES:
            raise unknown("scheme", self.scheme, SCHEMES)
        if self.distance is not None and self.distance not in DISTANCES:
            raise unknown("distance", self.distance, DISTANCES)
        if self.solver.lower() not in ("sor", *SOLVERS):
            raise unknown("solver", self.solver, ("sor", *SOLVERS))

    def _weights_by_class(self, codes: NDArray[np.intp], weights: Array) -> Array:
        if self.class_weight is None:
            return np.ones(len(self.classes_))
        if isinstance(self.class_weight, str):  # "balanced"
            return np.asarray(weights.sum() / (len(self.classes_) * np.bincount(codes, weights=weights)))
        found = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_[codes])
        if not (np.isfinite(found).all() and (found > 0).all()):
            raise ValueError(f"class_weight={self.class_weight!r} must hold positive, finite numbers.")
        return np.asarray(found, dtype=float)

    def _keep(self, found: list[_Plane], training: _Training) -> None:
        solutions = [plane.solution for plane in found]
        self.dual_coef_ = np.zeros((len(found), training.given))
        for row, plane in zip(self.dual_coef_, found, strict=True):
            if plane.margins is None:
                row[:] = np.nan
            else:  # a sample written several times has the sum of its multipliers
                np.add.at(row, plane.samples, plane.margins)
        size = np.abs(self.dual_coef_)
        largest = size.max(axis=1, keepdims=True)
        self.support_ = np.flatnonzero(((size > _SUPPORT * largest) & (size > 0)).any(axis=0))
        self.n_iter_ = max(1, *(solution.iterations for solution in solutions))
        self.certificate_ = [
            {
                "primal": float(solution.primal),
                "dual": float(solution.dual),
                "gap": float(solution.gap),
                "relative_gap": float(solution.relative_gap),
                "rigorous": False,
                "solver": solution.solver,
                "status": solution.status,
                "converged": bool(solution.converged),
                "iterations": int(solution.iterations),
            }
            for solution in solutions
        ]

    def _warn_of_gaps(self, solutions: list[Solution]) -> None:
        late = [
            f"class {label}: relative duality gap {solution.relative_gap:.1e} "
            f"({solution.solver}: {solution.status} after {solution.iterations} sweeps)"
            for label, solution in zip(self.classes_, solutions, strict=True)
            if not solution.converged
        ]
        if late:
            warnings.warn(
                f"{type(self).__name__} did not converge to tol={self.tol:g}; {'; '.join(late)}. Scale the "
                "features, raise max_iter or the ridge (C1), lower C2, or accept the gap with a larger tol.",
                ConvergenceWarning,
                stacklevel=3,
            )


@dataclass(frozen=True)
class _Plane:
    """A class's solution, and the multipliers of its margin rows with the samples they belong to."""

    solution: Solution
    margins: Array | None
    samples: NDArray[np.intp]


def _split(training: _Training, scheme: Scheme, k: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which samples are near rows and which margin rows of class k."""
    own = training.codes == k
    return (~own, own) if scheme == "farthest" else (own, ~own)


def _by_sor(compiled: Compiled, training: _Training, scheme: Scheme, k: int, options: dict[str, Any]) -> _Plane:
    begin = time.perf_counter()
    near, margin = _split(training, scheme, k)
    samples = training.kept[margin]
    S, R = class_matrices(training.rows, training.codes, k, scheme)
    result: SORResult
    margins: Array | None
    if isinstance(compiled, BoxQP):
        if training.weighted:
            problem = compiled.problem(
                S,
                R,
                near=training.weights[near],
                margin=training.weights[margin],
                columns=np.square(training.centre_scale),
            )
            result, plane = minimise(problem, **options)
        else:
            result, plane = compiled.solve(S, R, **options)
        margins = result.a
    else:
        result, plane, margins = _linear_program(
            compiled, S, R, training.weights[near], training.weights[margin], options
        )
    seconds = time.perf_counter() - begin
    solution = Solution(
        plane,
        result.primal,
        result.dual,
        result.gap,
        result.relative_gap,
        result.converged,
        result.status,
        result.sweeps,
        seconds,
        "sor",
    )
    return _Plane(solution, margins, samples)


def _linear_program(
    compiled: BoxLP, S: Array, R: Array, near: Array, margin: Array, options: dict[str, Any]
) -> tuple[SORResult, Array, Array | None]:
    G, terms, ends = compiled.assembled(S, R, near=near, margin=margin)
    result = proximal_point(G, terms, **options)
    pieces = zip(compiled.blocks, np.split(result.a, ends[:-1]), strict=True)
    margins = [piece for block, piece in pieces if block.rows == "R"]
    return result, result.w, margins[0] if len(margins) == 1 else None


def _by_general_solver(
    formulation: Formulation,
    training: _Training,
    columns: NDArray[np.intp],
    width: int,
    scheme: Scheme,
    k: int,
    options: dict[str, Any],
) -> _Plane:
    _, margin = _split(training, scheme, k)
    S, R = class_matrices(training.rows, training.codes, k, scheme)
    solution = solve(formulation, S, R, **options)
    plane = np.zeros(width)
    np.add.at(plane, columns, solution.plane)  # copies of a centre: their sum
    margins = solution.multipliers.get("margin")
    if margins is not None:
        margins = np.asarray(margins, dtype=float)
        if margins.shape != (len(R),):
            margins = None
    return _Plane(replace(solution, plane=plane), margins, training.kept[margin])
