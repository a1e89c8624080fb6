"""What the losses report runs: nested cross-validation of a contender on a set, its verification, its curves.

Every contender sees the same folds and chooses its (C1, C2) from the same grid, in the training part of each fold, by
planes that share one decomposition.  Returns rows; must not know how they are summarised.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from .. import catalog, datasets, path
from ..classes import Classes
from ..compile import compile
from ..derivation import evaluate
from ..errors import NPSVMError, SolverError, unknown
from ..estimator import NPSVMClassifier
from ..fenchel import _slopes, _supremum
from ..forms import BoxQP
from ..framework import Framework, conjugate_of
from ..linalg import Array
from ..modeling import Formulation
from ..planes import ZeroNormalWarning, class_matrices, decide, distances
from ..reading import NotCompilable
from ..solution import solve
from ..verification import verify
from .runner import plain

GRID = (2.0**-6, 2.0**-2, 2.0**2)
"""Of C1, and of C2."""
INNER = 3
TOYS = {"two crossing lines": datasets.make_cross_planes, "three lines": datasets.make_three_lines}
_TOL = 1e-6  # of the planes that only choose a setting; those that are scored have the classifier's own
_ZERO = 1e-8  # of the largest multiplier: what counts as zero, as in the classifier's support_
_FLAT = 1e-10
_VERIFIED_ROWS = 60


@dataclass(frozen=True)
class Contender:
    """A formulation by the name it goes by in the report, and where it is loaded from."""

    label: str
    source: str

    def formulation(self, **settings: float) -> Formulation:
        """Return the object, at its defaults but for ``settings``."""
        return catalog.resolve(self.source).set_params(**settings)


@lru_cache(maxsize=4)
def bunch(source: str) -> Any:
    """Return a set by its name or its file.

    Raises
    ------
    NPSVMError
        No set of that name, or a file that cannot be read.
    """
    named = (*datasets.DATASETS, *datasets.VARIANTS)
    if source in named:
        return datasets.load_dataset(source)
    if not Path(source).suffix and not Path(source).exists():
        raise unknown("data", source, named)
    try:
        return datasets.load_file(source)
    except (OSError, ValueError, ImportError) as error:
        if isinstance(error, OSError) and error.strerror:
            raise NPSVMError(f"data={source!r}: {error.strerror}.") from error
        raise NPSVMError(str(error).replace("path: ", "data: ", 1)) from error


def check_data(source: str) -> None:
    """Raise NPSVMError, naming the set, unless it can be split."""
    labels = np.unique(np.asarray(bunch(source).target).astype(str), return_counts=True)[1]
    if len(labels) < 2 or labels.max() < 2 * INNER:
        raise NPSVMError(
            f"data={source!r} has {len(labels)} classes of at most {labels.max()} samples; cross-validation needs two, "
            f"and {2 * INNER} samples of one."
        )


# --- accuracy ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """Training and test rows, grouped by class: codes ascend."""

    train: Array
    codes: NDArray[np.intp]
    test: Array
    truth: NDArray[np.intp]


@dataclass(frozen=True)
class _Fold(_Part):
    inner: tuple[_Part, ...]


def accuracy(contender: Contender, source: str, folds: int) -> Iterator[dict[str, Any]]:
    """Yield a row a fold: the setting chosen in its training part, and how it does on the rest."""
    settings = _settings(contender)
    for number, fold in enumerate(_folds(source, folds)):
        begin, spent = time.perf_counter(), time.process_time()
        row: dict[str, Any] = {"fold": number, "test": len(fold.truth), "status": "done", "note": ""}
        try:
            setting = choose(contender, settings, fold.inner)
            row |= setting | _scored(contender.formulation(**setting), fold)
        except _FAILURES as error:
            row |= _failed(error)
        yield row | {"total_seconds": time.perf_counter() - begin, "cpu_seconds": time.process_time() - spent}


_FAILURES = (ValueError, RuntimeError, ArithmeticError, np.linalg.LinAlgError)


def _failed(error: Exception) -> dict[str, Any]:
    return {"status": "failed", "note": " ".join(str(error).split()) or type(error).__name__}


def _settings(contender: Contender) -> dict[str, tuple[float, ...]]:
    """The grid of those of C1 and C2 that the contender has."""
    own = contender.formulation().get_params(deep=False)
    return {name: GRID for name in ("C1", "C2") if name in own}


@lru_cache(maxsize=2)
def _folds(source: str, folds: int) -> tuple[_Fold, ...]:
    """Split, and preprocess inside each part of each split; kept, since every contender sees the same."""
    data = bunch(source)
    X, y = data.data, np.unique(np.asarray(data.target).astype(str), return_inverse=True)[1]
    return tuple(
        _Fold(
            **vars(_part(data, train, test, y)),
            inner=tuple(_part(data, train[a], train[b], y) for a, b in _split(X.iloc[train], y[train], INNER)),
        )
        for train, test in _split(X, y, folds)
    )


def _split(X: Any, y: NDArray[np.intp], folds: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    count = int(min(folds, np.bincount(y).max()))
    with warnings.catch_warnings():  # a class of fewer samples than folds is missing from some, which is no harm
        warnings.simplefilter("ignore", UserWarning)
        return list(StratifiedKFold(count, shuffle=True, random_state=0).split(X, y))


def _part(data: Any, train: NDArray[np.intp], test: NDArray[np.intp], y: NDArray[np.intp]) -> _Part:
    train = train[np.argsort(y[train], kind="stable")]
    steps = datasets.preprocessor(data).fit(data.data.iloc[train])
    seen, unseen = (np.asarray(steps.transform(data.data.iloc[rows]), dtype=float) for rows in (train, test))
    return _Part(seen, y[train], unseen, y[test])


def choose(contender: Contender, settings: dict[str, tuple[float, ...]], parts: tuple[_Part, ...]) -> dict[str, float]:
    """Return the setting of the highest mean accuracy; of several, the least C2, and then the least C1."""
    tried = [dict(zip(settings, values, strict=True)) for values in product(*settings.values())]
    if len(tried) < 2:
        return tried[0] if tried else {}
    score = np.mean([_scores(contender, settings, tried, part) for part in parts], axis=0).round(9)
    order = sorted(range(len(tried)), key=lambda i: (-score[i], *[tried[i][name] for name in reversed(list(settings))]))
    return tried[order[0]]


def _scores(
    contender: Contender, settings: dict[str, tuple[float, ...]], tried: list[dict[str, float]], part: _Part
) -> list[float]:
    """Return the accuracy of each setting."""
    present, codes = np.unique(part.codes, return_inverse=True)
    rows, test = (np.column_stack([X, np.ones(len(X))]) for X in (part.train, part.test))
    formulation = contender.formulation()
    planes = _by_grid(formulation, settings, rows, codes) if "C2" in settings else None
    if planes is None:  # one general solution after another
        planes = np.array([_general(contender.formulation(**setting), rows, codes) for setting in tried])
    truth = np.searchsorted(present, part.truth)
    seen = np.isin(part.truth, present)
    return [
        float(np.mean(seen & (_decided(rows, test, z, formulation) == truth))) if np.isfinite(z).all() else 0.0
        for z in planes
    ]


def _by_grid(
    formulation: Formulation, settings: dict[str, tuple[float, ...]], rows: Array, codes: NDArray[np.intp]
) -> Array | None:
    """Return the planes of all settings and classes; None where SOR does not solve the formulation."""
    ends = np.cumsum(np.bincount(codes))
    classes = Classes(rows, ends, formulation.scheme, np.ones(len(rows)), np.ones(rows.shape[1]))
    try:
        found = path.grid(formulation, classes, settings.get("C1"), settings["C2"], tol=_TOL)
    except NotCompilable:
        return None
    return found.planes.reshape(-1, *found.planes.shape[2:])


def _general(formulation: Formulation, rows: Array, codes: NDArray[np.intp]) -> Array:
    """Return every class's plane; NaN where the solver has none, which chooses another setting."""
    matrices = (class_matrices(rows, codes, k, formulation.scheme) for k in range(codes[-1] + 1))
    try:
        return np.array([solve(formulation, S, R, solver="clarabel", tol=_TOL).plane for S, R in matrices])
    except SolverError:
        return np.full((int(codes[-1]) + 1, rows.shape[1]), np.nan)


def _decided(rows: Array, test: Array, planes: Array, formulation: Formulation) -> NDArray[np.intp]:
    """Decide as the classifier does by default."""
    if formulation.scheme == "farthest":
        return decide(distances(test, planes), "farthest")
    norms = np.linalg.norm(planes[:, :-1], axis=1)
    norms[np.abs(rows[:, :-1] @ planes[:, :-1].T).max(axis=0) <= _FLAT * np.abs(planes[:, -1])] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZeroNormalWarning)
        return decide(distances(test, planes, norms), "nearest")


def _scored(formulation: Formulation, fold: _Part) -> dict[str, Any]:
    """Fit the classifier on a training part; return what it does and what it cost."""
    begin = time.perf_counter()
    model = _fitted(formulation, fold.train, fold.codes)
    seconds = time.perf_counter() - begin
    size = np.abs(model.dual_coef_)
    margin = _margin_rows(model, fold.codes)
    zero = np.nan
    if not np.isnan(size).any():
        zero = float((size <= _ZERO * size.max(axis=1, keepdims=True))[margin].mean())
    return {
        "accuracy": float(np.mean(model.predict(fold.test) == fold.truth)),
        "zero": zero,
        "fit_seconds": seconds,
        "gap": max(float(plane["relative_gap"]) for plane in model.certificate_),
        "status": "done" if all(plane["converged"] for plane in model.certificate_) else "short",
    }


def _fitted(formulation: Formulation, X: Array, y: Any) -> NPSVMClassifier:
    with warnings.catch_warnings():  # what they would say is in the row: the gap, and the plane's accuracy
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", ZeroNormalWarning)
        return NPSVMClassifier(clone(formulation)).fit(X, y)


def _margin_rows(model: NPSVMClassifier, y: Any) -> NDArray[np.bool_]:
    own = np.asarray(y)[None, :] == model.classes_[:, None]
    return own if model.scheme_ == "farthest" else ~own


# --- the toy sets, verification, curves ----------------------------------------------------------------------


def toy(contender: Contender, name: str) -> Iterator[dict[str, Any]]:
    """Yield one row: the setting that cross-validation chooses on a toy set, and its planes there."""
    X, labels = TOYS[name]()
    y = labels - 1  # in order already
    parts = tuple(_Part(X[a], y[a], X[b], y[b]) for a, b in _split(X, y, INNER))
    try:
        setting = choose(contender, _settings(contender), parts)
        model = _fitted(contender.formulation(**setting), X, y)
    except _FAILURES as error:
        yield _failed(error)
        return
    yield {
        **setting,
        "status": "done",
        "scheme": model.scheme_,
        "accuracy": float(model.score(X, y)),
        "planes": ";".join(" ".join(f"{value:.9g}" for value in plane) for plane in model.planes_),
    }


def evidence(contender: Contender, source: str, kernel: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a verification at the default hyperparameters, and at one that has nothing in common."""
    data = datasets.as_arrays(bunch(source))
    answer = verify(contender.formulation(), data, kernel=kernel, max_rows=_VERIFIED_ROWS, max_planes=2)
    verdict = "verified" if answer.passed else "wrong"
    for row in answer.rows:
        yield {**vars(row), "kernel": kernel, "verdict": verdict, "diagnosis": answer.diagnosis}


def curves(contender: Contender) -> Iterator[dict[str, Any]]:
    """Yield points of the loss L(t) and of its conjugate L*(v), where the contender has one loss a sample."""
    for name, (x, values, how) in _curves(contender).items():
        for at, value in zip(x, values, strict=True):
            yield {"curve": name, "how": how, "x": float(at), "y": float(value)}


def _curves(contender: Contender) -> dict[str, tuple[Array, Array, str]]:
    t, v = np.linspace(-2.0, 4.0, 241), np.linspace(-3.0, 3.0, 241)
    formulation = contender.formulation()
    if isinstance(formulation, Framework):
        loss = formulation.loss
        if loss.conjugate is not None:
            value, domain = conjugate_of(loss, _constant(v))
            inside = np.all([_kept(constraint, len(v)) for constraint in domain], axis=0) if domain else True
            dual = np.where(inside, np.asarray(value.value, dtype=float), np.nan)
            return {"loss": (t, evaluate(loss.values, t), "declared"), "conjugate": (v, dual, "declared")}
        low, high = _slopes(loss)
        inside = (v >= low) & (v <= high)
        dual = np.array([_supremum(loss, at) if ok else np.nan for at, ok in zip(v, inside, strict=True)])
        return {"loss": (t, evaluate(loss.values, t), "declared"), "conjugate": (v, dual, "the supremum")}
    try:  # L and L* are what the declared dual says they are: h(a) = C2 L*(-a / C2), at C2 = 1
        compiled = compile(contender.formulation(**({"C2": 1.0} if "C2" in formulation.get_params() else {})))
    except NotCompilable:
        return {}
    if not isinstance(compiled, BoxQP):
        return {}
    terms = compiled.samples.terms(len(t), 1.0)
    one = compiled.samples
    inside = (-v >= one.lower) & (-v <= one.upper)
    dual = np.where(inside, -one.linear * v + one.curvature * v**2 / 2 + one.constant, np.nan)
    return {
        "loss": (t, np.where(np.isfinite(terms.phi(t)), terms.phi(t) - one.constant, np.nan), "from the dual"),
        "conjugate": (v, dual, "from the dual"),
    }


def _constant(values: Array) -> Any:
    import cvxpy as cp

    return cp.Constant(values)


def _kept(constraint: Any, n: int) -> NDArray[np.bool_]:
    return np.broadcast_to(np.asarray(constraint.violation(), dtype=float) <= 1e-9, (n,))


def run(kind: str, contender: Contender, dataset: str, folds: int) -> list[dict[str, Any]]:
    """Return the rows of one trial, each with its kind, its contender and its data."""
    with threadpool_limits(1):
        rows = {
            "accuracy": lambda: accuracy(contender, dataset, folds),
            "toy": lambda: toy(contender, dataset),
            "linear": lambda: evidence(contender, dataset, "linear"),
            "rbf": lambda: evidence(contender, dataset, "rbf"),
            "curves": lambda: curves(contender),
        }[kind]()
        kept = "check" if kind in ("linear", "rbf") else kind
        return [{"kind": kept, "contender": contender.label, "dataset": dataset, **plain(row)} for row in rows]
