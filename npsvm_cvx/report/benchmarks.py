"""What the performance report measures: each task times its contenders side by side, in a process of its own.

Contenders take turns, round after round, so that what else the machine does falls on all of them; a first round is
not counted (compilation, caches); figures are medians.  Planes are scored by how far their primal value is above the
proved optimum, relative to it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from sklearn.base import clone

from .. import catalog, datasets, path, planes
from ..classes import Classes, ClassPlane, solve_classes
from ..compile import compile
from ..errors import SolverError
from ..estimator import NPSVMClassifier
from ..forms import BoxQP
from ..linalg import Array
from ..modeling import Formulation
from ..solution import solve

TOLERANCE = 1e-9
"""Relative certified gap asked of the solver."""
SETTINGS = ((2.0**-7, 1.0), (1.0, 100.0))
CORNERS = ((2.0**-8, 2.0**-8), (2.0**-8, 2.0**8), (2.0**8, 2.0**-8), (2.0**8, 2.0**8), (1.0, 1.0))
KERNELS = {"linear": None, "RBF, gamma 2^-4": 2.0**-4, "RBF, gamma 1": 1.0}
GRID: Array = np.array([2.0**power for power in range(-8, 9)])
_LIMIT = 60.0  # seconds that a contender's one run may take before it is not run again


@dataclass(frozen=True)
class Task:
    """One experiment: its kind, its size and how often."""

    kind: str
    n: int
    d: int
    C1: float = 1.0
    C2: float = 1.0
    classes: int = 2
    repeats: int = 5
    dataset: str = ""

    @property
    def name(self) -> str:
        """What the progress line says."""
        return f"{self.kind} · {self.dataset or f'{self.n} x {self.d}'}"


def run(task: Task) -> list[dict[str, Any]]:
    """Do one task; return a row a contender: seconds (median), runs, gap, bytes, note."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # contenders warn of their own limits; the score says what came of it
        return _KINDS[task.kind](task)


def gaussian(n: int, d: int, classes: int = 2, seed: int = 0) -> tuple[Array, NDArray[np.intp]]:
    """Return samples of unit normal classes whose means differ by 0.3 in every feature; they overlap."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return rng.normal(size=(n, d)) + 0.3 * y[:, None], y


def grouped(X: Array, y: NDArray[np.intp]) -> Classes:
    """Return linear rows grouped by class."""
    order = np.argsort(y, kind="stable")
    rows = np.column_stack([X[order], np.ones(len(X))])
    return Classes(rows, np.cumsum(np.bincount(y)), "farthest", np.ones(len(X)), np.ones(rows.shape[1]))


def race(contenders: dict[str, Callable[[], Any]], repeats: int) -> dict[str, tuple[list[float], Any]]:
    """Return each contender's seconds, and what it last returned; None for one that could not."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    answers: dict[str, Any] = {}
    for turn in range(repeats + 1):
        for name, call in contenders.items():
            if name in answers and answers[name] is None:
                continue
            begin = time.perf_counter()
            try:
                answers[name] = call()
            except (SolverError, MemoryError):
                answers[name] = None
                continue
            spent = time.perf_counter() - begin
            slow = turn == 0 and spent > _LIMIT
            if turn or slow:  # what takes a minute does not gain from a warm-up
                seconds[name].append(spent)
            if slow:
                contenders = {other: c for other, c in contenders.items() if other != name}
    return {name: (seconds[name], answers.get(name)) for name in seconds}


def _rows(task: Task, found: dict[str, tuple[list[float], Any]], scores: dict[str, float]) -> list[dict[str, Any]]:
    rows = []
    for name, (seconds, _) in found.items():
        rows.append(
            {
                **task.__dict__,
                "contender": name,
                "seconds": float(np.median(seconds)) if seconds else None,
                "fastest": min(seconds) if seconds else None,
                "runs": len(seconds),
                "gap": scores.get(name),
                "computed": None,
                "memory": None,
                "note": "" if seconds else "failed",
            }
        )
    return rows


def _default() -> type[Formulation]:
    """Return the formulation that users get who name none."""
    return type(catalog.resolve(NPSVMClassifier().formulation))


# --- linear rows -------------------------------------------------------------------------------------------


def _has_rehline() -> bool:
    return importlib.util.find_spec("rehline") is not None


class _Linear:
    """The hinge on linear rows, both planes, by every contender."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.X, self.y = gaussian(task.n, task.d)
        self.classes = grouped(self.X, self.y)
        self.formulation = _default()(C1=task.C1, C2=task.C2)
        compiled = compile(self.formulation)
        assert isinstance(compiled, BoxQP)
        self.compiled = compiled

    @cached_property
    def best(self) -> list[ClassPlane]:
        return self.ours(1, 1e-12)

    def ours(self, threads: int = 1, tol: float = TOLERANCE) -> list[ClassPlane]:
        # a new object each time: what it computes once it must compute in every run
        return solve_classes(self.compiled, replace(self.classes), n_jobs=threads, tol=tol)

    def fit(self) -> NPSVMClassifier:
        return NPSVMClassifier(self.formulation, tol=TOLERANCE).fit(self.X, self.y)

    def product(self) -> Array:
        return np.asarray(self.X.T @ self.X)

    def matrices(self, k: int) -> tuple[Array, Array]:
        return self.classes.stack(self.classes.near(k)).dense(), self.classes.stack(self.classes.margin(k)).dense()

    def _whitened(self, solver: Callable[[Array], Array]) -> list[Array]:
        found = []
        for k in (0, 1):
            S, R = self.matrices(k)
            L = np.linalg.cholesky(S.T @ S + self.task.C1 * np.eye(S.shape[1]))
            F = np.ascontiguousarray(solve_triangular(L, R.T, lower=True, check_finite=False).T)
            found.append(solve_triangular(L.T, solver(F), check_finite=False))
        return found

    def liblinear(self) -> list[Array]:
        """Whitened, each plane is a linear SVM without intercept whose labels may be any: a row's sign goes with it."""
        from sklearn.svm import LinearSVC

        def solver(F: Array) -> Array:
            signs = np.where(np.arange(len(F)) % 2 == 0, 1.0, -1.0)
            model = LinearSVC(
                loss="hinge", C=self.task.C2, fit_intercept=False, tol=1e-6, max_iter=10_000, random_state=0
            )
            return np.asarray(model.fit(F * signs[:, None], signs).coef_[0])

        return self._whitened(solver)

    def rehline(self) -> Any:
        """Whitened, by the ReLU-composition solver."""
        solver = importlib.import_module("rehline").ReHLine_solver

        def call(F: Array) -> Array:
            weight = np.full((1, len(F)), self.task.C2)
            return np.asarray(solver(F, -weight, weight, tol=1e-5, max_iter=10_000, verbose=0).beta)

        return self._whitened(call)

    def plain(self) -> Any:
        """The ordinary linear SVM of the two classes: another problem, which users would else solve."""
        from sklearn.svm import LinearSVC

        return LinearSVC(loss="hinge", C=self.task.C2, random_state=0).fit(self.X, self.y)

    def libsvm(self) -> Any:
        """The ordinary SVM with the linear kernel, by LIBSVM."""
        from sklearn.svm import SVC

        return SVC(kernel="linear", C=1.0).fit(self.X, self.y)

    def general(self, solver: str) -> Callable[[], list[Array]]:
        def call() -> list[Array]:
            planes_ = []
            for k in (0, 1):
                solution = solve(self.formulation, *self.matrices(k), solver=solver, time_limit=120.0)
                planes_.append(solution.plane)
            return planes_

        return call

    def score(self, found: list[Array]) -> float:
        """Return the larger of the planes' proved relative distances to the optimum."""
        worst = 0.0
        for k, (z, best) in enumerate(zip(found, self.best, strict=True)):
            S, R = self.matrices(k)
            value = self.compiled.primal_value(S, R, z)
            assert best.certificate is not None
            bound = best.certificate.gap
            worst = max(worst, (max(value - best.certificate.value, 0.0) + bound) / abs(best.certificate.value))
        return worst


def _linear(task: Task, contenders: dict[str, Callable[[], Any]], setup: _Linear) -> list[dict[str, Any]]:
    found = race(contenders, task.repeats)
    scores = {}
    for name, (_, answer) in found.items():
        if isinstance(answer, NPSVMClassifier):
            scores[name] = max(c["relative_gap"] for c in answer.certificate_)
        elif isinstance(answer, list) and isinstance(answer[0], ClassPlane):
            scores[name] = max(p.certificate.relative_gap for p in answer)
        elif isinstance(answer, list):
            scores[name] = setup.score(answer)
    return _rows(task, found, scores)


def _hinge(task: Task) -> list[dict[str, Any]]:
    setup = _Linear(task)
    contenders: dict[str, Callable[[], Any]] = {
        "X'X": setup.product,
        "solver": setup.ours,
        "solver, two threads": lambda: setup.ours(2),
        "fit": setup.fit,
        "whitening + LIBLINEAR": setup.liblinear,
        "whitening + ReHLine": setup.rehline,
        "LinearSVC": setup.plain,
    }
    if not _has_rehline():
        del contenders["whitening + ReHLine"]
    return _linear(task, contenders, setup)


def _general(task: Task) -> list[dict[str, Any]]:
    setup = _Linear(task)
    contenders: dict[str, Callable[[], Any]] = {"X'X": setup.product, "solver": setup.ours}
    # at a hundred thousand rows only those that are not out of the race at ten thousand
    names = ("clarabel", "osqp", "scs") if task.n > 20_000 else ("clarabel", "osqp", "ecos", "scs", "highs")
    contenders |= {name: setup.general(name) for name in names}
    return _linear(task, contenders, setup)


def _growth(task: Task) -> list[dict[str, Any]]:
    setup = _Linear(task)
    contenders: dict[str, Callable[[], Any]] = {"X'X": setup.product, "solver": setup.ours, "fit": setup.fit}
    size = task.n * task.d
    if size <= 1_000_000:
        contenders["clarabel"] = setup.general("clarabel")
    if task.n <= 10_000:
        contenders["osqp"] = setup.general("osqp")
        contenders["LIBSVM"] = setup.libsvm
    if size <= 10_000_000:
        contenders["whitening + LIBLINEAR"] = setup.liblinear
        contenders["LinearSVC"] = setup.plain
        if _has_rehline():
            contenders["whitening + ReHLine"] = setup.rehline
    return _linear(task, contenders, setup)


def _million(task: Task) -> list[dict[str, Any]]:
    """Time a whole fit, and the most memory it takes: the data's and what is added to it, over the data's."""
    X, y = gaussian(task.n, task.d)
    model = NPSVMClassifier(_default()(C1=task.C1, C2=task.C2), tol=TOLERANCE)
    model.fit(X[:20_000], y[:20_000])
    beside = clone(model).set_params(n_jobs=2)
    contenders: dict[str, Callable[[], Any]] = {
        "X'X": lambda: X.T @ X,
        "fit": lambda: model.fit(X, y),
        "fit, two threads": lambda: beside.fit(X, y),
    }
    found = race(contenders, task.repeats)
    with _Peak() as peak:
        model.fit(X, y)
    both = {"fit": model, "fit, two threads": beside}
    rows = _rows(task, found, {name: max(c["relative_gap"] for c in m.certificate_) for name, m in both.items()})
    rows[1]["memory"] = 1 + peak.added / X.nbytes
    return rows


class _Peak:
    """The most resident memory that a block adds, looked at every few milliseconds."""

    added = 0.0

    def __enter__(self) -> _Peak:
        self._before, self._stop = _resident(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.002):
            self.added = max(self.added, _resident() - self._before)

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def _resident() -> float:
    with contextlib.suppress(OSError, ValueError):
        return 4096.0 * int(Path("/proc/self/statm").read_text().split()[1])
    return float("nan")


# --- kernels, the linear program, the grid -------------------------------------------------------------------


def _kernel(task: Task) -> list[dict[str, Any]]:
    """Time the full RBF kernel: matrix included, one class alone and all of them."""
    X, y = gaussian(task.n, task.d, task.classes)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    compiled = compile(_default()(C1=task.C1, C2=task.C2))

    def call(which: list[int] | None) -> list[ClassPlane]:
        rows = planes.Rows.of("rbf", X, gamma=planes.scale_gamma(X))(X)
        classes = Classes(rows, np.cumsum(np.bincount(y)), "farthest", np.ones(len(X)), np.ones(rows.shape[1]))
        return solve_classes(compiled, classes, which=which, tol=TOLERANCE)

    found = race({"one class": lambda: call([0]), "all classes": lambda: call(None)}, task.repeats)
    scores = {name: max(p.certificate.relative_gap for p in answer) for name, (_, answer) in found.items()}
    return _rows(task, found, scores)


def _linear_program(task: Task) -> list[dict[str, Any]]:
    """Time the linear program of the formulations that have one, against the best general solver for it."""
    name = next(n for n in catalog.available() if not isinstance(compile(catalog.load(n)()), BoxQP))
    formulation = catalog.load(name)(C1=task.C1, C2=task.C2)
    X, y = gaussian(task.n, task.d)
    classes = replace(grouped(X, y), scheme=formulation.scheme)
    compiled = compile(formulation)
    S, R = classes.stack(classes.near(0)).dense(), classes.sign * classes.stack(classes.margin(0)).dense()
    contenders: dict[str, Callable[[], Any]] = {
        "X'X": lambda: X.T @ X,
        "solver": lambda: solve_classes(compiled, classes, which=[0], tol=TOLERANCE)[0],
        "clarabel": lambda: solve(formulation, S, R, solver="clarabel"),
    }
    found = race(contenders, task.repeats)
    ours = found["solver"][1]
    scores = {"solver": ours.certificate.relative_gap}
    if found["clarabel"][1] is not None:
        value = compiled.primal_value(S, R, found["clarabel"][1].plane)
        scores["clarabel"] = (max(value - ours.certificate.value, 0.0) + ours.certificate.gap) / value
    return _rows(task, found, scores)


def _path(task: Task) -> list[dict[str, Any]]:
    """Time a whole grid of (C1, C2) on ten folds, against ten fits at one of its points."""
    from sklearn.model_selection import StratifiedKFold

    X, y = datasets.as_arrays(datasets.load_dataset("pima_indian"))
    folds = [train for train, _ in StratifiedKFold(10, shuffle=True, random_state=0).split(X, y)]
    cls = _default()
    codes = np.unique(y, return_inverse=True)[1]
    model = NPSVMClassifier(cls(C1=task.C1, C2=task.C2))

    def whole() -> list[path.Grid]:
        return [path.grid(cls(), grouped(X[train], codes[train]), GRID, GRID) for train in folds]

    def one() -> list[NPSVMClassifier]:
        return [model.fit(X[train], y[train]) for train in folds]

    found = race({"grid of 289": whole, "one point": one}, task.repeats)
    grids = found["grid of 289"][1]
    scores = {
        "grid of 289": max(float(g.relative_gap.max()) for g in grids),
        "one point": max(c["relative_gap"] for c in model.certificate_),
    }
    return _rows(task, found, scores)


def _accuracy(task: Task) -> list[dict[str, Any]]:
    """Solve every formulation on a data set, linear and RBF, at the corners of the grid; say what is proved."""
    X, y = datasets.as_arrays(datasets.load_dataset(task.dataset))
    small = datasets.stratified_subsample(X, y, task.n) if len(X) > task.n else (X, y)
    found = []
    for kernel, gamma in KERNELS.items():
        samples, labels = (X, y) if gamma is None else small
        rows = planes.Rows()(samples) if gamma is None else planes.Rows.of("rbf", samples, gamma=gamma)(samples)
        order = np.argsort(labels, kind="stable")
        ends = np.cumsum(np.unique(labels, return_counts=True)[1])
        for name in catalog.available():
            cls = catalog.load(name)
            classes = Classes(rows[order], ends, cls.scheme, np.ones(len(rows)), np.ones(rows.shape[1]))
            for C1, C2 in CORNERS:
                own = {"C1": C1, "C2": C2} if "C1" in cls().get_params(deep=False) else {"C2": C2}
                begin = time.perf_counter()
                solved = solve_classes(
                    compile(cls(**own)), classes, which=list(range(min(3, len(ends)))), tol=1e-10, time_limit=60.0
                )
                spent = time.perf_counter() - begin
                for each in solved:
                    found.append(
                        {
                            **task.__dict__,
                            **{"n": len(rows), "d": rows.shape[1], "C1": C1, "C2": C2},
                            "contender": name,
                            "seconds": spent / len(solved),
                            "fastest": None,
                            "runs": 1,
                            "gap": each.certificate.relative_gap if each.certificate is not None else None,
                            "computed": each.result.relative_gap,
                            "memory": None,
                            "note": kernel,
                        }
                    )
    return found


_KINDS: dict[str, Callable[[Task], list[dict[str, Any]]]] = {
    "hinge": _hinge,
    "general": _general,
    "growth": _growth,
    "million": _million,
    "kernel": _kernel,
    "linear program": _linear_program,
    "grid": _path,
    "accuracy": _accuracy,
}
