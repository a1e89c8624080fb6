"""NPSVMClassifier: any formulation as a scikit-learn classifier.

Knows rows, compiled duals and solvers through their modules, and scikit-learn's conventions. Must not know
any formulation by name, the default's apart.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.parallel import Parallel, delayed

from .catalog import framework_class, resolve
from .certificate import Certificate
from .classes import Classes, solve_classes
from .compile import compile_agreeing
from .errors import SolverError, unknown
from .forms import Compiled
from .framework import Loss
from .linalg import Array
from .modeling import Formulation, Scheme
from .plane_classifier import PlaneClassifier, Training, available_memory
from .planes import DISTANCES, SCHEMES, Distance, class_matrices
from .problem import is_sparse
from .reading import NotCompilable
from .solution import Solution, solve
from .solvers import SOLVERS

DEFAULT = "hnpsvm"
"""The formulation of a classifier that is told none: the paper's own."""

_SUPPORT = 1e-8  # multipliers below this times the class's largest count as zero
_FALLBACK = "clarabel"
_OF_ALL = 6.0  # arrays of (samples x samples) that a fit to sparse samples of many features holds, at most
_OF_ONE = 14.0  # arrays of (features x features) that one class takes with fewer: its factor, and rows whitened
_UNPROVED = 1000.0  # a proof that falls short of tol by this factor for rounding's sake is worth a warning


class NPSVMClassifier(PlaneClassifier):
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
        hyperparameters, a loss's with the framework's C1 and C2, are set as ``formulation__C1`` and so on, also
        where it is given by name: setting one turns the name into an object.
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
    time_limit : float or None, default=None
        Seconds for each class's plane, looked at between sweeps; the plane reached is kept, its gap reported.
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
        One a class: ``primal``, ``dual``, ``gap``, ``relative_gap``, ``rigorous``, ``solver``, ``status``,
        ``converged``, ``iterations``. Where ``rigorous``, the gap is proved, all rounding included, of the problem
        that the formulation's dual states, and may on that account exceed ``tol`` where the gap that the solver
        computed, which ``converged`` is about, does not.
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
        A class whose relative gap is above ``tol`` (a general solver's: above 1e-6 too), or proved to no better than
        a thousand times that; the message gives the gap reached.
    ZeroNormalWarning
        A plane with w = 0, which tells no samples apart.

    Notes
    -----
    A sample of weight s counts as s copies of it: s multiplies its :math:`C_2` where it is a margin row, its
    :math:`(x z)^2` (or :math:`|x z|`) where it is a near row, and, where it is a centre of the full kernel,
    divides the price of its squared coefficient; a weight of zero leaves the sample out. Class weights do the
    first two. Weights other than whole numbers need ``solver="sor"`` and a dual it solves.

    Features are used as they are, and most formulations penalise b: scale them first, in a Pipeline.

    Sparse X is taken with ``kernel="linear"`` and ``solver="sor"``, and stays sparse: plain arrays are made of
    (features x features), of some rows at a time and, with more features than half the samples, of (samples x
    samples). Dividing by a scale keeps X sparse (``MaxAbsScaler``); centring does not.

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

    _takes_sparse = True
    _flat_advice = "Large C2 on overlapping classes does this; use a smaller C2, or a kernel."

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "formulation": [str, Path, type, Formulation, Loss],
        **PlaneClassifier._row_constraints,
        "scheme": [None, str],
        "distance": [None, str],
        "solver": [str],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "max_iter": [None, Interval(Integral, 1, None, closed="left")],
        "time_limit": [None, Interval(Real, 0.0, None, closed="neither")],
        "class_weight": [None, StrOptions({"balanced"}), dict],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        formulation: str | Path | type[Formulation] | type[Loss] | Formulation | Loss = DEFAULT,
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
        time_limit: float | None = None,
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
        self.time_limit = time_limit
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``formulation__NAME`` also where the formulation is a name, a path, a class or a loss.

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
        nested = {name.removeprefix("formulation__") for name in params if name.startswith("formulation__")}
        unnamed = isinstance(self.formulation, str | Path | type)
        if nested and (unnamed or (isinstance(self.formulation, Loss) and nested - {*self.formulation.get_params()})):
            self.formulation = resolve(self.formulation)
        super().set_params(**params)
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        # a format that saves a class by its name finds the loss where its formulation was, both being called alike
        for name in {"formulation", "formulation_"} & set(state):
            saved = state[name]
            if isinstance(saved, Loss) and "C1" in vars(saved):
                state = {**state, name: framework_class(type(saved))(**vars(saved))}
        super().__setstate__(state)

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Find the plane of each class.

        Parameters
        ----------
        X : (samples, features) array-like or sparse matrix
            Or, with ``kernel="precomputed"``, the (samples, samples) kernel values.
        y : (samples,) array-like
            Labels of any type scikit-learn takes; two classes or more.
        sample_weight : (samples,) array-like, optional
            Nonnegative.

        Returns
        -------
        NPSVMClassifier

        Raises
        ------
        ValueError
            A parameter out of its range, one class, non-finite values, weights that cannot be honoured; the
            message names the argument.
        TypeError
            Sparse X with another kernel or a general solver.
        MemoryError
            Kernel matrices, or those of many sparse features, beyond what is available.
        """
        training, seed = self._prepared(X, y, sample_weight)
        solver, compiled, obstacle = self._way(self.formulation_)
        if compiled is not None:
            found = self._by_sor(compiled, training, seed)
        else:
            found = self._by_general_solver(self.formulation_, training, solver, obstacle)
        self._keep(found, training)
        self._keep_planes(np.array([plane.solution.plane for plane in found]), training)
        self._warn_of_gaps(found)
        return self

    def _prepared(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> tuple[Training, int]:
        """Check the parameters, set what does not depend on the planes, and return the rows and a seed."""
        self._validate_params()
        self._check_names()
        rng = check_random_state(self.random_state)
        formulation: Formulation = clone(resolve(self.formulation))
        formulation.check_hyperparameters()
        self.formulation_ = formulation
        self.scheme_ = formulation.scheme if self.scheme is None else self.scheme
        default: Distance = "absolute" if self.scheme_ == "farthest" else "euclidean"
        self.distance_ = default if self.distance is None else self.distance
        return self._training(X, y, sample_weight, rng), int(rng.randint(2**31 - 1))

    def _way(self, formulation: Formulation) -> tuple[str, Compiled | None, str]:
        """Return the solver, what it works on if that is SOR, and else why it takes no weights."""
        solver = self.solver.lower()
        if solver != "sor":
            return solver, None, f"solver={self.solver!r} takes no weights"
        try:
            return solver, compile_agreeing(formulation), ""
        except NotCompilable as error:
            return _FALLBACK, None, f"SOR does not solve {type(formulation).__name__} ({str(error).rstrip('.')})"

    def _check_sparse(self, n: int, d: int) -> None:
        classes = len(self.classes_)
        if 2 * d > n and (self.scheme_ == "farthest" or classes == 2):
            self._check_room(8.0 * _OF_ALL * n**2, f"{n} sparse samples")
        else:
            self._check_room(8.0 * (_OF_ONE + classes) * d**2, f"{d - 1} sparse features")

    def _check_room(self, needed: float, what: str) -> None:
        free = available_memory()
        if needed > free:
            raise MemoryError(
                f"X: {what} need matrices of about {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are available; "
                "reduce the features first (TruncatedSVD, SelectKBest), or take fewer samples."
            )

    def _copies_of_a_kernel(self) -> float:
        # a class by itself works on copies of its rows; farthest, and nearest of two, share one inverse
        shared = self.scheme_ == "farthest" or len(self.classes_) == 2
        return super()._copies_of_a_kernel() * (1.0 if shared and self.n_jobs in (None, 1) else 1.6)

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
        if not all(isinstance(value, Real) for value in self.class_weight.values()):
            raise ValueError(f"class_weight={self.class_weight!r} must hold positive, finite numbers.")
        found = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_[codes])
        if not (np.isfinite(found).all() and (found > 1e-100).all() and (found < 1e100).all()):
            raise ValueError(f"class_weight={self.class_weight!r} must hold positive, finite numbers.")
        return np.asarray(found, dtype=float)

    def _by_sor(self, compiled: Compiled, training: Training, seed: int) -> list[_Plane]:
        options: dict[str, Any] = {"tol": self.tol, "random_state": seed, "time_limit": self.time_limit}
        if self.max_iter is not None:
            options["max_sweeps"] = self.max_iter
        classes = self._classes(training)
        planes = solve_classes(compiled, classes, n_jobs=self.n_jobs, verbose=int(self.verbose), **options)
        found = []
        for k, each in enumerate(planes):
            solution = Solution.of(each.result, each.plane, each.seconds)
            samples = np.concatenate([training.samples[part] for part in classes.margin(k)])
            found.append(_Plane(solution, each.margins, samples, each.certificate))
        return found

    def _classes(self, training: Training) -> Classes:
        return Classes(training.rows, training.ends, self.scheme_, training.weights, np.square(training.centre_scale))

    def _by_general_solver(
        self, formulation: Formulation, training: Training, solver: str, obstacle: str
    ) -> list[_Plane]:
        options = {
            "tol": self.tol,
            "max_iter": self.max_iter,
            "time_limit": self.time_limit,
            "solver": solver,
            "verbose": self.verbose > 0,
        }
        if is_sparse(training.rows):
            why = obstacle if obstacle.startswith("SOR") else f"solver={self.solver!r} needs plain rows"
            raise TypeError(f"X is sparse, and {why}; use X.toarray().")
        written, columns = training.repeated(obstacle)
        width = training.rows.shape[1]
        try:
            # building CVXPY problems holds the interpreter's lock: processes, not threads
            return list(
                Parallel(n_jobs=self.n_jobs, verbose=int(self.verbose), prefer="processes")(
                    delayed(_general)(formulation, written, columns, width, self.scheme_, k, options)
                    for k in range(len(self.classes_))
                )
            )
        except SolverError as error:
            if obstacle.startswith("SOR"):  # nobody asked for a general solver
                raise SolverError(f"{obstacle}, and {error}") from None
            raise

    def _keep(self, found: list[_Plane], training: Training) -> None:
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
        self.certificate_ = [_statement(plane) for plane in found]

    def _warn_of_gaps(self, found: list[_Plane]) -> None:
        late = []
        for label, plane in zip(self.classes_, found, strict=True):
            solution, proved = plane.solution, plane.proved
            after = f" after {solution.iterations} sweeps" if solution.iterations else ""
            how = f"({solution.solver}: {solution.status}{after})"
            if not solution.converged:
                late.append(f"class {label}: relative duality gap {solution.relative_gap:.1e} {how}")
            elif proved is not None and _UNPROVED * self.tol < proved.relative_gap < math.inf:
                late.append(f"class {label}: of the gap only {proved.relative_gap:.1e} is proved, for rounding {how}")
        if late:
            warnings.warn(
                f"{type(self).__name__} did not converge to tol={self.tol:g}; {'; '.join(late)}. Scale the "
                "features, raise max_iter, time_limit or the ridge (C1), lower C2, or accept the gap by a larger tol.",
                ConvergenceWarning,
                stacklevel=3,
            )


@dataclass(frozen=True)
class _Plane:
    """A class's solution, the multipliers of its margin rows, the samples they belong to, and what was proved."""

    solution: Solution
    margins: Array | None
    samples: NDArray[np.intp]
    proved: Certificate | None = None


def _statement(plane: _Plane) -> dict[str, Any]:
    solution, proved = plane.solution, plane.proved
    rigorous = proved is not None and math.isfinite(proved.gap)
    primal, gap, relative = float(solution.primal), float(solution.gap), float(solution.relative_gap)
    if rigorous:
        assert proved is not None
        primal, gap, relative = proved.value, proved.gap, proved.relative_gap
    return {
        "primal": primal,
        "dual": primal - gap,
        "gap": gap,
        "relative_gap": relative,
        "rigorous": rigorous,
        "solver": solution.solver,
        "status": solution.status,
        "converged": bool(solution.converged),
        "iterations": int(solution.iterations),
    }


def _general(
    formulation: Formulation,
    training: Training,
    columns: NDArray[np.intp],
    width: int,
    scheme: Scheme,
    k: int,
    options: dict[str, Any],
) -> _Plane:
    own = training.codes == k
    margin = own if scheme == "farthest" else ~own
    S, R = class_matrices(training.rows, training.codes, k, scheme)
    solution = solve(formulation, S, R, **options)
    plane = np.zeros(width)
    np.add.at(plane, columns, solution.plane)  # copies of a centre: their sum
    margins = solution.multipliers.get("margin")
    if margins is not None:
        margins = np.asarray(margins, dtype=float)
        if margins.shape != (len(R),):
            margins = None
    return _Plane(replace(solution, plane=plane), margins, training.samples[margin])
