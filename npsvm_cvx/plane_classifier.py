"""Classifiers by distances to planes: from (X, y) to rows grouped by class, and from planes to decisions.

Knows rows, kernels, weights and scikit-learn's conventions.  Must not know how planes are found.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array, gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .linalg import Array
from .modeling import Scheme
from .planes import Distance, Rows, ZeroNormalWarning

_BLOCK = 2**22  # entries of the rows held at once in prediction: 32 MB
_FLAT = 1e-10  # a plane whose value varies by less than this times |b| over the training samples has w = 0
_LARGEST_REPETITION = 100_000  # rows that whole-number weights may grow to with a general solver
_COPIES_OF_A_KERNEL = 5.0  # arrays of the kernel matrix's size that a fit holds at once, at most
_LARGEST_WEIGHT = 1e100  # what a square of is no number any more


@dataclass(frozen=True)
class Training:
    """What a fit works on: the rows of the samples of positive weight, grouped by class, and what a weight means."""

    rows: Array  # (n, d), class after class
    codes: NDArray[np.intp]  # (n,), indices into classes_, ascending
    weights: Array  # (n,), positive: how much a row costs
    copies: Array  # (n,), positive: how often a sample is there, its class's weight apart
    samples: NDArray[np.intp]  # (n,), each row's position among the samples given
    given: int  # samples before those of weight zero were dropped
    own_centres: NDArray[np.intp] | None  # where every centre is a sample: the row of each, and a repeated sample is
    # a repeated centre

    @property
    def ends(self) -> NDArray[np.intp]:
        """Where each class's rows end."""
        return np.cumsum(np.bincount(self.codes))

    @property
    def weighted(self) -> bool:
        """Whether a sample counts for more or less than one."""
        return bool((self.weights != 1.0).any() or (self.copies != 1.0).any())

    @property
    def centre_scale(self) -> Array:
        """Column scales that make a centre of weight m equal to m copies under a squared norm.

        m copies share a coefficient v at the price ``m (v/m)^2 = v^2 / m``, which is that of ``u = v / sqrt(m)``.
        """
        scale = np.ones(self.rows.shape[1])
        if self.own_centres is not None:
            scale[:-1] = np.sqrt(self.copies[self.own_centres])
        return scale

    def repeated(self, obstacle: str) -> tuple[Training, NDArray[np.intp]]:
        """Return the set with every sample written out as often as its weight says, and the columns used."""
        if not self.weighted:
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
        if self.own_centres is not None:
            each = self.copies[self.own_centres].astype(int)
            columns = np.append(np.repeat(columns[:-1], each), columns[-1])
        rows = self.rows[np.ix_(index, columns)]
        ones = np.ones(len(index))
        written = replace(
            self, rows=rows, codes=self.codes[index], weights=ones, copies=ones, samples=self.samples[index]
        )
        return written, columns


class PlaneClassifier(ClassifierMixin, BaseEstimator):
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
        tags.input_tags.pairwise = named(self.kernel, "precomputed")
        return tags

    # --- fitting -----------------------------------------------------------------------------------------

    def _training(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, rng: np.random.RandomState
    ) -> Training:
        """Validate, drop samples of weight zero, set classes_ and the centres, and build the rows."""
        samples, labels = validate_data(self, X, y, dtype=np.float64, order="C")
        check_classification_targets(labels)
        if sample_weight is None:
            weights = np.ones(len(samples))
        else:
            weights = _check_sample_weight(sample_weight, samples, dtype=np.float64, ensure_non_negative=True)
            if weights.max(initial=0.0) > _LARGEST_WEIGHT:
                raise ValueError(f"sample_weight must not exceed {_LARGEST_WEIGHT:g}; found {weights.max():g}.")
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
        order = np.argsort(codes, kind="stable")
        rows = self._training_rows(samples, kept[order])
        places: NDArray[np.intp] | None = None
        if own_centres:
            places = np.empty(len(order), dtype=np.intp)
            places[order] = np.arange(len(order))
        return Training(rows, codes[order], costs[order], copies[order], kept[order], len(samples), places)

    def _training_rows(self, samples: Array, index: NDArray[np.intp]) -> Array:
        """Return the rows of some samples, built a block at a time so that nothing is held twice."""
        linear = named(self.kernel, "linear")
        d = (samples.shape[1] if linear else self._centre_count()) + 1
        if not linear:
            self._check_memory(len(index), d)
        rows = np.empty((len(index), d))
        for block in gen_batches(len(index), max(1, (_BLOCK >> 4 if linear else _BLOCK) // d)):
            if linear:
                rows[block, :-1], rows[block, -1] = samples[index[block]], 1.0
                continue
            with np.errstate(over="ignore", invalid="ignore"):
                rows[block] = self._rows(samples[index[block]])
            if not np.isfinite(rows[block]).all():
                raise ValueError(
                    f"kernel={self.kernel!r} gives values that are not finite on these samples; scale the "
                    "features, or change gamma, degree or coef0."
                )
        return rows

    def _centre_count(self) -> int:
        if self.centre_indices_ is not None:
            return len(self.centre_indices_)
        assert self.centres_ is not None
        return len(self.centres_)

    def _copies_of_a_kernel(self) -> float:
        """How many arrays of the kernel matrix's size a fit holds at once, at most."""
        return _COPIES_OF_A_KERNEL

    def _check_memory(self, n: int, d: int) -> None:
        """Refuse a kernel matrix that memory cannot hold, before it is built."""
        copies = self._copies_of_a_kernel()
        needed, free = copies * 8 * n * d, available_memory()
        if needed > free:
            fit = int(free / (2 * copies * 8 * n))
            centres = max(len(self.classes_), 10 ** int(np.log10(max(fit, 10))))
            raise MemoryError(
                f"kernel={self.kernel!r}: {n} samples and {d - 1} centres need about {needed / 1e9:.1f} GB, and "
                f"{free / 1e9:.1f} GB are available. Use fewer centres (the rectangular kernel): "
                f"landmarks={centres} needs about {copies * 8 * n * centres / 1e9:.1g} GB."
            )

    def _weights_by_class(self, codes: NDArray[np.intp], weights: Array) -> Array:
        return np.ones(len(self.classes_))

    def _check_class_count(self, labels: NDArray[Any]) -> None:
        """Refuse a number of classes the method does not have."""

    def _check_kernel(self, samples: Array) -> None:
        if named(self.kernel, "linear") and self.landmarks is not None:
            raise ValueError("landmarks must be None with kernel='linear', which has no centres.")
        if named(self.kernel, "precomputed") and samples.shape[0] != samples.shape[1]:
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
        if named(self.kernel, "linear"):
            self._map = Rows()
            return False
        precomputed = named(self.kernel, "precomputed")
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

    def _keep_planes(self, planes: Array, training: Training) -> None:
        """Set planes_ and the norms of their normals; warn of a plane without one where the rule divides."""
        self.planes_ = planes
        if self.distance_ == "absolute":
            self._norms: Array | None = None
            return
        w = planes[:, :-1]
        if named(self.kernel, "linear"):
            norms = np.linalg.norm(w, axis=1)
        else:
            norms = self._expansion_norms(w, training)
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

    def _expansion_norms(self, w: Array, training: Training) -> Array:
        """Return ``sqrt(w' K(C, C) w)``, K(C, C) read off the training rows where the centres are training samples."""
        if training.own_centres is not None:
            values = (training.rows[:, :-1] @ w.T)[training.own_centres]
        elif self.centre_indices_ is not None:
            place = np.empty(training.given, dtype=np.intp)
            place[training.samples] = np.arange(len(training.samples))
            values = training.rows[place[self.centre_indices_], :-1] @ w.T
        else:
            assert self.centres_ is not None
            values = self._rows(self.centres_)[:, :-1] @ w.T
        return np.sqrt(np.maximum(np.einsum("ki,ik->k", w, values), 0.0))

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
        if not named(self.kernel, "linear"):
            raise AttributeError(f"{name} is only there with kernel='linear'; planes_ has the expansion coefficients.")

    def plane_values(self, X: ArrayLike) -> Array:
        """Return ``x z_k`` of each sample and class: zero on the plane, and of either sign beside it.

        Parameters
        ----------
        X : (samples, features) array-like
            Or kernel values with the training samples, (samples, training samples), where they are
            precomputed.

        Returns
        -------
        (samples, classes) array
            In the order of ``classes_``.
        """
        check_is_fitted(self)
        samples = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        found = np.empty((len(samples), len(self.planes_)))
        for block in gen_batches(len(samples), max(1, _BLOCK // self.planes_.shape[1])):
            found[block] = self._rows(samples[block]) @ self.planes_.T
        return found

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
        found = np.abs(self.plane_values(X))
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


def named(kernel: object, name: str) -> bool:
    """Whether the kernel is the one of that name."""
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


def available_memory() -> float:
    """Return the bytes of memory that can be had; infinite where the system does not say."""
    return max(0.0, min(_of_the_machine(), _of_the_process(), _of_the_container()))


def _of_the_machine() -> float:
    with contextlib.suppress(OSError, StopIteration, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    if {"SC_AVPHYS_PAGES", "SC_PAGE_SIZE"} <= set(getattr(os, "sysconf_names", {})):
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return float("inf")


def _of_the_process() -> float:
    """What ``ulimit -v`` leaves."""
    with contextlib.suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most != resource.RLIM_INFINITY:
            used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
            return float(most - used)
    return float("inf")


def _of_the_container() -> float:
    """What the control group leaves, if it has a limit."""
    folder = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError, ValueError, IndexError):
        most, used = (int((folder / f"memory.{name}").read_text(encoding="ascii")) for name in ("max", "current"))
        lines = (folder / "memory.stat").read_text(encoding="ascii").splitlines()
        cached = sum(int(line.split()[1]) for line in lines if line.startswith("inactive_file"))
        return float(most - used + cached)
    return float("inf")
