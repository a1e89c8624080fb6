"""Planes over a grid of C1 and C2 from samples, and the classifier that chooses among them by cross-validation.

Knows the classifier, grids of planes and scikit-learn's conventions.  Must not know any formulation by name, the
default's apart.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, check_scoring
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_sample_weight

from .errors import NPSVMError
from .estimator import DEFAULT, NPSVMClassifier
from .framework import Loss
from .linalg import Array
from .modeling import Formulation, Scheme
from .path import Grid, grid
from .plane_classifier import Training
from .planes import Distance

POWERS = tuple(2.0**k for k in range(-8, 9, 2))
"""The default values of C1 and of C2: every second of the paper's, 2^-8 to 2^8."""


@dataclass(frozen=True)
class PlanePath:
    """The planes of every class at every setting of a grid.

    Attributes
    ----------
    classes : (K,) array
        The labels, sorted.
    C1, C2 : arrays
        C1 holds one NaN where the formulation has no such hyperparameter.
    planes : (len(C1), len(C2), K, d) array
        As ``planes_`` of :class:`~npsvm_cvx.estimator.NPSVMClassifier`.
    relative_gap : (len(C1), len(C2), K) array
        The relative duality gap of each plane, as computed from the data.
    n_iter : (len(C1), len(C2), K) array of int
        Sweeps, or a general solver's iterations.
    """

    classes: NDArray[Any]
    C1: Array
    C2: Array
    planes: Array
    relative_gap: Array
    n_iter: NDArray[np.intp]


def npsvm_path(
    X: ArrayLike,
    y: ArrayLike,
    formulation: str | Path | type[Formulation] | type[Loss] | Formulation | Loss = DEFAULT,
    C1s: Sequence[float] | Array | None = None,
    C2s: Sequence[float] | Array | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    **parameters: Any,
) -> PlanePath:
    r"""Compute the planes of all classes over a grid of :math:`C_1` and :math:`C_2`.

    They are those of separate fits, to the gap stated beside each.  One decomposition of the near rows,
    :math:`S^\top S = V \mathrm{diag}(s) V^\top`, serves every :math:`C_1`, and each :math:`C_2` starts from its
    neighbour's multipliers; where a formulation's dual does not scale with the two, or the rows are many, settings are
    solved one by one and share the rows.

    Parameters
    ----------
    X : (samples, features) array-like or sparse matrix
    y : (samples,) array-like
    formulation : str, path, class or object, default="hnpsvm"
    C1s, C2s : sequences of positive numbers, default=2^-8, 2^-6, ..., 2^8
        ``C1s`` must be None for a formulation without C1.
    sample_weight : (samples,) array-like, optional
    **parameters
        Of :class:`~npsvm_cvx.estimator.NPSVMClassifier`: kernel, gamma, landmarks, scheme, tol and so on; but for
        max_iter and time_limit.

    Returns
    -------
    PlanePath

    Raises
    ------
    ValueError
        As ``NPSVMClassifier.fit``; values that are not positive; hyperparameters the formulation does not have.

    Warns
    -----
    ConvergenceWarning
        Planes whose gap is above ``tol``: how many, and the largest gap.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> path = npsvm_path(*load_iris(return_X_y=True), C1s=[0.1, 1.0], C2s=[1.0, 10.0, 100.0])
    >>> path.planes.shape, bool(path.relative_gap.max() < 1e-8)
    ((2, 3, 3, 5), True)
    """
    for name in ("max_iter", "time_limit"):
        if parameters.get(name) is not None:
            raise ValueError(f"npsvm_path has no {name}: its planes are computed together; give tol alone.")
    model = NPSVMClassifier(formulation, **parameters)
    training, seed = model._prepared(X, y, sample_weight)
    found = _planes(model, training, seed, *_axes(model.formulation_, C1s, C2s))
    _warn(found, model, stacklevel=3)
    return PlanePath(model.classes_, found.C1, found.C2, found.planes, found.relative_gap, found.sweeps)


def _axes(formulation: Formulation, C1s: Any, C2s: Any) -> tuple[Array | None, Array]:
    """Return the values of C1, None where the formulation has none, and of C2."""
    has_C1 = "C1" in formulation.get_params(deep=False)
    C1 = None if C1s is None and not has_C1 else _values("C1s", C1s)
    return C1, _values("C2s", C2s)


def _values(name: str, given: Any) -> Array:
    try:
        found = np.array(POWERS if given is None else given)
        found = found.astype(float) if found.dtype.kind in "iuf" else np.empty(0)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.ndim != 1 or not found.size or not (np.isfinite(found).all() and (found > 0).all()):
        raise ValueError(f"{name} must be a sequence of positive, finite numbers; found {given!r}.")
    return found


def _planes(model: NPSVMClassifier, training: Training, seed: int, C1: Array | None, C2: Array) -> Grid:
    """Return the planes of every setting, by SOR over the grid or by a general solver at each setting."""
    solver, compiled, obstacle = model._way(model.formulation_)
    if compiled is not None:
        return grid(model.formulation_, model._classes(training), C1, C2, tol=model.tol, random_state=seed)
    first = np.array([np.nan]) if C1 is None else C1
    shape = len(first), len(C2), len(model.classes_)
    found = Grid(first, C2, np.empty((*shape, training.rows.shape[1])), np.empty(shape), np.zeros(shape, dtype=np.intp))
    for (i, c1), (j, c2) in product(enumerate(first), enumerate(C2)):
        setting = {"C2": float(c2)} if C1 is None else {"C1": float(c1), "C2": float(c2)}
        one = _with(model.formulation_, setting)
        for k, plane in enumerate(model._by_general_solver(one, training, solver, obstacle)):
            found.planes[i, j, k] = plane.solution.plane
            found.relative_gap[i, j, k] = plane.solution.relative_gap
            found.sweeps[i, j, k] = plane.solution.iterations
    return found


def _with(formulation: Formulation, setting: Mapping[str, float]) -> Formulation:
    missing = [name for name in setting if name not in formulation.get_params(deep=False)]
    if missing:
        own = ", ".join(formulation.get_params(deep=False))
        raise NPSVMError(f"{type(formulation).__name__} has no hyperparameter {missing[0]}; it has {own}.")
    changed: Formulation = clone(formulation).set_params(**setting)
    return changed


def _warn(found: Grid, model: NPSVMClassifier, stacklevel: int) -> None:
    late = found.relative_gap > model.tol
    if late.any():
        i, j, _ = np.unravel_index(int(np.argmax(found.relative_gap)), late.shape)
        warnings.warn(
            f"{int(late.sum())} of {late.size} planes did not converge to tol={model.tol:g}: relative duality gap "
            f"{found.relative_gap.max():.1e} at C1={found.C1[i]:g}, C2={found.C2[j]:g}. Scale the features, leave out "
            "the extreme values, or accept the gap by a larger tol.",
            ConvergenceWarning,
            stacklevel=stacklevel + 1,
        )


class NPSVMClassifierCV(NPSVMClassifier):
    r"""Nonparallel-hyperplane SVM with :math:`C_1`, :math:`C_2` and other parameters chosen by cross-validation.

    In each fold all planes of the :math:`(C_1, C_2)` grid are computed together (:func:`npsvm_path`) and scored on the
    samples left out; the setting of the best mean score, the first of the grid where several have it, is fitted to all
    samples, with its certificate.

    Parameters
    ----------
    formulation : str, path, class or object, default="hnpsvm"
        Hyperparameters that are not searched keep the values it has.
    C1s, C2s : sequences of positive numbers or None, default=None
        None is 2^-8, 2^-6, ..., 2^8. ``C1s`` must be None for a formulation without C1.
    grid : dict of sequences, a list of such, or None, default=None
        Other parameters to search as well, by name: ``{"gamma": [0.1, 1.0], "formulation__tau": [0.2, 0.5]}``. Any
        but ``formulation`` and ``kernel``.
    cv : int, splitter, iterable or None, default=None
        As in scikit-learn: None is 5 stratified folds, an int their number.
    scoring : str, callable or None, default=None
        Accuracy, or any scorer of scikit-learn's that asks for ``predict`` or ``decision_function``.
    refit : bool, default=True
        Whether to fit the best setting to all samples; without it there is no ``predict``.
    n_jobs : int or None, default=None
        Folds (times settings of ``grid``) computed at a time, by joblib's backend in force: processes, or a Dask
        cluster under ``joblib.parallel_config("dask")``.
    kernel, gamma, degree, coef0, landmarks, scheme, distance, solver, tol, max_iter, time_limit, class_weight, \
random_state, verbose
        As in :class:`~npsvm_cvx.estimator.NPSVMClassifier`; ``max_iter`` and ``time_limit`` are of the last fit.

    Attributes
    ----------
    best_params_ : dict
        ``formulation__C1``, ``formulation__C2`` and what ``grid`` names.
    best_score_ : float
        The mean score of that setting; optimistic, as every best of many is.
    best_index_ : int
        Its place in ``cv_results_``.
    cv_results_ : dict of arrays
        As :class:`sklearn.model_selection.GridSearchCV` has it: ``params``, ``param_*``, ``split*_test_score``,
        ``mean_test_score``, ``std_test_score``, ``rank_test_score``; and ``max_relative_gap``, the largest of a
        setting's planes over all folds.
    n_splits_ : int
    classes_, planes_, coef_, certificate_ and so on
        Those of the last fit, as in :class:`~npsvm_cvx.estimator.NPSVMClassifier`.

    Warns
    -----
    ConvergenceWarning
        Planes in a fold, or at last, whose gap is above ``tol``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> model = NPSVMClassifierCV(kernel="rbf", cv=3).fit(*load_iris(return_X_y=True))
    >>> bool(model.best_score_ > 0.9), sorted(model.best_params_), len(model.cv_results_["params"])
    (True, ['formulation__C1', 'formulation__C2'], 81)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NPSVMClassifier._parameter_constraints,
        "C1s": [None, "array-like"],
        "C2s": [None, "array-like"],
        "grid": [None, dict, list],
        "cv": ["cv_object"],
        "scoring": [None, str, callable],
        "refit": ["boolean"],
    }

    def __init__(
        self,
        formulation: str | Path | type[Formulation] | type[Loss] | Formulation | Loss = DEFAULT,
        *,
        C1s: Sequence[float] | Array | None = None,
        C2s: Sequence[float] | Array | None = None,
        grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]] | None = None,
        cv: Any = None,
        scoring: str | Callable[..., float] | None = None,
        refit: bool = True,
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
        time_limit: float | None = None,
        class_weight: dict[Any, float] | str | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            formulation,
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            landmarks=landmarks,
            scheme=scheme,
            distance=distance,
            solver=solver,
            tol=tol,
            max_iter=max_iter,
            time_limit=time_limit,
            class_weight=class_weight,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.C1s = C1s
        self.C2s = C2s
        self.grid = grid
        self.cv = cv
        self.scoring = scoring
        self.refit = refit

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Score every setting by cross-validation and fit the best to all samples.

        Parameters
        ----------
        X : (samples, features) array-like or sparse matrix
            Or, with ``kernel="precomputed"``, the (samples, samples) kernel values.
        y : (samples,) array-like
            Labels of any type scikit-learn takes; two classes or more in every fold.
        sample_weight : (samples,) array-like, optional
            Nonnegative; used in fits, and in scores by scorers that take it.
        groups : (samples,) array-like, optional
            For the splitters of ``cv`` that need them.

        Returns
        -------
        NPSVMClassifierCV

        Raises
        ------
        ValueError
            As ``NPSVMClassifier.fit``; a parameter in ``grid`` that cannot be searched; a fold with one class.
        """
        self._validate_params()
        self._forget()
        base = NPSVMClassifier(**{name: getattr(self, name) for name in NPSVMClassifier().get_params(deep=False)})
        X, y = self._validated(X, y)
        probe = clone(base)
        probe._prepared(X, y, sample_weight)  # what is wrong with the data is said before any fold
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        others, scorer = self._others(), self._scorer()
        C1, C2 = _axes(probe.formulation_, self.C1s, self.C2s)
        splits = list(check_cv(5 if self.cv is None else self.cv, y, classifier=True).split(X, y, groups))
        if not splits:
            raise ValueError(f"cv={self.cv!r} yields no split.")
        models = [clone(base).set_params(n_jobs=None, **clone(other, safe=False)) for other in others]
        tasks = list(product(models, splits))
        found = Parallel(n_jobs=self.n_jobs, verbose=int(self.verbose))(
            delayed(_score_fold)(model, X, y, weights, train, test, C1, C2, scorer) for model, (train, test) in tasks
        )
        # (others, folds, settings): scores and gaps
        scores, gaps = (np.array(part).reshape(len(others), len(splits), -1) for part in zip(*found, strict=True))
        self._keep_results(others, C1, C2, scores, gaps)
        self.n_splits_ = len(splits)
        if self.refit:
            best = clone(base).set_params(**self.best_params_).fit(X, y, sample_weight)
            parameters = best.get_params(deep=False)
            self.__dict__.update({name: value for name, value in vars(best).items() if name not in parameters})
        return self

    def _scorer(self) -> Any:
        """Return scikit-learn's scorer, None for accuracy."""
        if self.scoring is None:
            return None
        scorer = check_scoring(self, scoring=self.scoring)
        methods = getattr(scorer, "_response_method", "predict")
        asked = (methods,) if isinstance(methods, str) else tuple(methods)
        if not {"predict", "decision_function"} & set(asked):
            raise ValueError(f"scoring={self.scoring!r} asks for {asked[0]}, which the classifier does not have.")
        return scorer

    def _others(self) -> list[dict[str, Any]]:
        """Return the settings of the parameters that ``grid`` names."""
        if self.grid is None:
            return [{}]
        try:
            others = [dict(each) for each in ParameterGrid(self.grid)]
            if not others or not all(isinstance(name, str) for each in others for name in each):
                raise ValueError("names are text, and there is one at least")
        except (TypeError, ValueError) as error:
            raise ValueError(f"grid={self.grid!r} must map parameters to sequences of values: {error}") from None
        fixed = {"formulation", "kernel", "formulation__C1", "formulation__C2", *_OWN}
        for name in sorted({name for each in others for name in each}):
            if name in fixed:
                instead = "C1s or C2s" if name.startswith("formulation__") else "GridSearchCV"
                raise ValueError(f"grid: {name!r} cannot be searched here; use {instead}.")
        return others

    def _keep_results(
        self, others: list[dict[str, Any]], C1: Array | None, C2: Array, scores: Array, gaps: Array
    ) -> None:
        settings = [
            {**({} if C1 is None else {"formulation__C1": float(c1)}), "formulation__C2": float(c2)}
            for c1, c2 in product([np.nan] if C1 is None else C1, C2)
        ]
        params = [{**other, **setting} for other, setting in product(others, settings)]
        by_fold = scores.transpose(1, 0, 2).reshape(scores.shape[1], -1)
        mean = by_fold.mean(axis=0)
        results: dict[str, Any] = {"params": params}
        for name in sorted({name for each in params for name in each}):
            column = np.ma.masked_all(len(params), dtype=object)
            for at, each in enumerate(params):
                if name in each:
                    column[at] = each[name]
            results[f"param_{name}"] = column
        results |= {f"split{fold}_test_score": each for fold, each in enumerate(by_fold)}
        rounded = np.round(mean, 12)  # sums of the same scores in another order are equal
        worst = np.where(np.isnan(rounded), -np.inf, rounded)
        results |= {
            "mean_test_score": mean,
            "std_test_score": by_fold.std(axis=0),
            "rank_test_score": rankdata(-worst, method="min").astype(np.int32),
            "max_relative_gap": gaps.transpose(1, 0, 2).reshape(by_fold.shape).max(axis=0),
        }
        self.cv_results_ = results
        self.best_index_ = int(np.argmax(worst))
        self.best_params_ = params[self.best_index_]
        self.best_score_ = float(mean[self.best_index_])


_OWN = ("C1s", "C2s", "grid", "cv", "scoring", "refit", "n_jobs", "verbose")


def _score_fold(
    model: NPSVMClassifier,
    X: Any,
    y: Any,
    weights: Array | None,
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    C1: Array | None,
    C2: Array,
    scoring: Any,
) -> tuple[Array, Array]:
    """Return the score of every setting on the samples left out, and the largest gap of its planes."""
    X_train, y_train = _safe_split(model, X, y, train)
    X_test, y_test = _safe_split(model, X, y, test, train)
    training, seed = model._prepared(X_train, y_train, None if weights is None else weights[train])
    found = _planes(model, training, seed, C1, C2)
    _warn(found, model, stacklevel=2)
    samples = model._validated(X_test, reset=False)
    kept = None if weights is None else weights[test]
    scores = np.empty(found.planes.shape[:2])
    for i, planes in enumerate(found.planes):  # one C1 at a time: distances of all would be many
        flat = planes.reshape(-1, planes.shape[-1])
        distances = model._distances(samples, flat, *model._normals(flat, training))
        for j in range(len(C2)):
            each = distances[:, j * len(model.classes_) : (j + 1) * len(model.classes_)]
            scores[i, j] = _score(model, model._scores(each), X_test, y_test, kept, scoring)
    return scores.ravel(), found.relative_gap.max(axis=2).ravel()


def _score(model: NPSVMClassifier, values: Array, X: Any, y: Any, weights: Array | None, scoring: Any) -> float:
    if weights is not None and not weights.sum() > 0:
        return float("nan")
    if scoring is None:
        return float(accuracy_score(y, model._labels(values), sample_weight=weights))
    answers = _Answers(model.classes_, values, model._labels(values))
    try:
        if weights is not None:
            with contextlib.suppress(TypeError):  # a scorer that takes no weights
                return float(scoring(answers, X, y, sample_weight=weights))
        return float(scoring(answers, X, y))
    except AttributeError as error:
        raise ValueError(
            f"scoring={scoring!r} asks for more than predict and decision_function ({error}); use GridSearchCV."
        ) from None


class _Answers(ClassifierMixin, BaseEstimator):
    """A classifier whose answers on one set of samples are known; what a scorer asks of it."""

    def __init__(self, classes_: NDArray[Any], values: Array, labels: NDArray[Any]) -> None:
        self.classes_ = classes_
        self.values = values
        self.labels = labels

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def decision_function(self, X: Any) -> Array:
        return self.values

    def predict(self, X: Any) -> NDArray[Any]:
        return self.labels


__all__ = ["NPSVMClassifierCV", "PlanePath", "npsvm_path"]
