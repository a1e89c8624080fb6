"""What each method of the paper's tables gets right on a test fold, at every setting of its grid at once.

Trains on one part of a set and counts on others.  Must not know of sets, folds, stores or tables.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from ... import catalog, path
from ...baselines import GEPSVM
from ...classes import Classes
from ...datasets import stratified_subsample
from ...linalg import Array
from ...planes import Rows

_FLAT = 1e-10  # a plane whose values vary by less than this times |b| over the training rows has w = 0
_MOST_ITERATIONS = 1_000_000  # of LIBSVM; a hard problem at a large C would else take as long as all others
_INFINITE = float(np.finfo(float).max)


@dataclass(frozen=True)
class Part:
    """Samples, preprocessed, and the codes of their classes."""

    X: Array
    y: NDArray[np.intp]


@dataclass(frozen=True)
class Kernel:
    """The linear kernel where gamma is None, else the Gaussian one, with centres that are samples of the training part.

    ``centres`` holds their positions, or is None where all of them are.
    """

    gamma: float | None = None
    centres: NDArray[np.intp] | None = None

    def rows(self, X: Array) -> Rows:
        """Return the map from samples to rows."""
        if self.gamma is None:
            return Rows()
        return Rows.of("rbf", X if self.centres is None else X[self.centres], gamma=self.gamma)


@dataclass(frozen=True)
class Counts:
    """Correct predictions of each test part at each setting, the settings not solved to tolerance, and the time."""

    correct: list[NDArray[np.intp]]
    late: int
    seconds: float


Settings = Sequence[dict[str, float]]


@dataclass(frozen=True)
class Method:
    """A column of the tables.

    Attributes
    ----------
    name : str
        As in files; a formulation's own name, or one of the others here.
    formulation : str
        Empty where it is none.
    classes : str
        "two", "several" or "any": which sets it is for.
    kind : str
        How it decides among the classes.
    """

    name: str
    formulation: str
    classes: str
    kind: str

    def settings(self, values: Sequence[float]) -> Settings:
        """Return its grid, each hyperparameter over the same values."""
        if self.kind == "eigenvalues":
            return [{"delta": v} for v in values]
        if self.kind.startswith("svc"):
            return [{"C": v} for v in values]
        if "C1" in catalog.load(self.formulation)().get_params():
            return [{"C1": a, "C2": b} for a, b in product(values, values)]
        return [{"C2": v} for v in values]

    def count(self, train: Part, tests: Sequence[Part], kernel: Kernel, values: Sequence[float], tol: float) -> Counts:
        """Train at every setting and count what it gets right.

        Parameters
        ----------
        train : Part
        tests : sequence of Part
        kernel : Kernel
        values : sequence of positive floats
            Of each hyperparameter.
        tol : float
            Relative gap of each plane.
        """
        if len(np.unique(train.y)) < 2:
            raise ValueError("a training part holds one class only; use fewer folds.")
        return _KINDS[self.kind](self, train, tests, kernel, values, tol)


@cache
def methods() -> dict[str, Method]:
    """Return all methods: every formulation there is, and what the paper compares them with."""
    found = [Method(name, name, "any", "planes") for name in catalog.available()]
    found += [
        Method("svm", "", "any", "svc"),
        Method("gepsvm", "", "two", "eigenvalues"),
        Method("svm_ovr", "", "several", "svc one-versus-rest"),
        Method("twsvm_ovr", "twsvm", "several", "planes one-versus-rest"),
    ]
    return {method.name: method for method in found}


# --- planes ------------------------------------------------------------------------------------------------


def _planes(
    method: Method, train: Part, tests: Sequence[Part], kernel: Kernel, values: Sequence[float], tol: float
) -> Counts:
    begin = time.perf_counter()
    map_rows = kernel.rows(train.X)
    rows = map_rows(train.X)
    labels, codes = np.unique(train.y, return_inverse=True)
    found, scheme = _grid(method, rows, codes, values, tol)
    seconds = time.perf_counter() - begin
    distances = _distances(found.planes, scheme, rows, map_rows, [test.X for test in tests])
    correct = []
    for test, distance in zip(tests, distances, strict=True):
        at = distance.argmax(axis=2) if scheme == "farthest" else distance.argmin(axis=2)
        correct.append((labels[at] == test.y).sum(axis=1))
    return Counts(correct, int((found.relative_gap > tol).any(axis=2).sum()), seconds)


def _one_versus_rest(
    method: Method, train: Part, tests: Sequence[Part], kernel: Kernel, values: Sequence[float], tol: float
) -> Counts:
    """Two planes a class, its own and that of the rest; the class whose own is nearer than the rest's by most."""
    begin, spent, late = 0.0, 0.0, 0
    map_rows = kernel.rows(train.X)
    rows = map_rows(train.X)
    labels = np.unique(train.y)
    scores: list[list[Array]] = [[] for _ in tests]
    for label in labels:
        begin = time.perf_counter()
        found, scheme = _grid(method, rows, (train.y == label).astype(np.intp), values, tol)
        spent += time.perf_counter() - begin
        late += int((found.relative_gap > tol).any(axis=2).sum())
        distances = _distances(found.planes, scheme, rows, map_rows, [test.X for test in tests])
        sign = 1.0 if scheme == "farthest" else -1.0
        for kept, distance in zip(scores, distances, strict=True):
            kept.append(sign * (distance[:, :, 1] - distance[:, :, 0]))
    correct = [
        (labels[np.stack(kept, axis=2).argmax(axis=2)] == test.y).sum(axis=1)
        for kept, test in zip(scores, tests, strict=True)
    ]
    return Counts(correct, late, spent)


def _grid(
    method: Method, rows: Array, codes: NDArray[np.intp], values: Sequence[float], tol: float
) -> tuple[path.Grid, str]:
    formulation = catalog.load(method.formulation)()
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes))
    classes = Classes(rows[order], ends, formulation.scheme, np.ones(len(rows)), np.ones(rows.shape[1]))
    first = values if "C1" in formulation.get_params() else None
    return path.grid(formulation, classes, first, values, tol=tol), formulation.scheme


def _distances(found: Array, scheme: str, rows: Array, map_rows: Rows, tests: Sequence[Array]) -> list[Array]:
    """Return the distance of each sample to each class's plane, (settings, samples, classes) a test part."""
    Z = found.reshape(-1, found.shape[2], found.shape[3])
    stacked = Z.reshape(-1, Z.shape[2])
    norms = np.ones(len(stacked))
    if scheme == "nearest":  # by Euclidean distance, as the originals do
        norms = _norms(stacked[:, :-1], map_rows)
        norms[np.abs(rows[:, :-1] @ stacked[:, :-1].T).max(axis=0) <= _FLAT * np.abs(stacked[:, -1])] = 0.0
    flat = norms == 0
    distances = []
    for X in tests:
        values = np.abs(map_rows(X) @ stacked.T) / np.where(flat, 1.0, norms)
        values[:, flat] = _INFINITE
        distances.append(values.reshape(len(X), *Z.shape[:2]).transpose(1, 0, 2))
    return distances


def _norms(w: Array, map_rows: Rows) -> Array:
    if map_rows.centres is None:
        return np.asarray(np.linalg.norm(w, axis=1))
    gram = map_rows(map_rows.centres)[:, :-1]
    return np.asarray(np.sqrt(np.maximum(((w @ gram) * w).sum(axis=1), 0.0)))


# --- the others --------------------------------------------------------------------------------------------


def _svc(
    method: Method, train: Part, tests: Sequence[Part], kernel: Kernel, values: Sequence[float], tol: float
) -> Counts:
    def make(C: float) -> Any:
        shape = {"kernel": "linear"} if kernel.gamma is None else {"kernel": "rbf", "gamma": kernel.gamma}
        model = SVC(C=C, cache_size=200, max_iter=_MOST_ITERATIONS, **shape)
        return model if method.kind == "svc" else OneVsRestClassifier(model)

    return _one_by_one([make(value) for value in values], train, tests)


def _eigenvalues(
    method: Method, train: Part, tests: Sequence[Part], kernel: Kernel, values: Sequence[float], tol: float
) -> Counts:
    shape: dict[str, Any] = {}
    if kernel.gamma is not None:
        shape = {"kernel": "rbf", "gamma": kernel.gamma}
        if kernel.centres is not None:
            shape["landmarks"] = train.X[kernel.centres]
    return _one_by_one([GEPSVM(value, **shape) for value in values], train, tests)


def _one_by_one(models: Sequence[Any], train: Part, tests: Sequence[Part]) -> Counts:
    correct: list[list[int]] = [[] for _ in tests]
    late, spent = 0, 0.0
    for model in models:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            begin = time.perf_counter()
            model.fit(train.X, train.y)
            spent += time.perf_counter() - begin
            for kept, test in zip(correct, tests, strict=True):
                kept.append(int((model.predict(test.X) == test.y).sum()))
        late += any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    return Counts([np.array(kept) for kept in correct], late, spent)


_KINDS: dict[str, Callable[..., Counts]] = {
    "planes": _planes,
    "planes one-versus-rest": _one_versus_rest,
    "svc": _svc,
    "svc one-versus-rest": _svc,
    "eigenvalues": _eigenvalues,
}


def landmarks(y: NDArray[np.intp], n: int) -> NDArray[np.intp]:
    """Return the positions of about ``n`` samples, classes in proportion, for a rectangular kernel."""
    at = np.arange(len(y))
    return np.asarray(stratified_subsample(at[:, None], y, n)[0][:, 0])
