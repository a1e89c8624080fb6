"""Run the checks on a formulation and a data set, and say what they mean together.

``verify`` is the question; :class:`Verification` the answer: rows of evidence, a verdict, and where the mistake is.
"""

from __future__ import annotations

import contextlib
import html
import itertools
import json
import math
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from .catalog import resolve
from .checks import CHECKS, DERIVATION, dual_function
from .compile import compile
from .datasets import as_arrays, load_dataset, stratified_subsample
from .errors import CurvatureError, FormulationError, NPSVMError
from .evidence import PLANES, Row
from .fenchel import conjugate
from .forms import BoxLP, BoxQP
from .framework import Loss
from .instance import Instance
from .linalg import Array
from .modeling import Formulation, Scheme, _one_line, moved_to
from .planes import Rows, class_matrices, decide, distances, scale_gamma
from .solvers import check_solvers

COLUMNS = ["check", "value", "tolerance", "status", "meaning"]


class VerificationError(AssertionError):
    """A formulation that failed its verification; the message is the diagnosis."""


@dataclass(frozen=True)
class Verification:
    """Evidence on one formulation, and what it amounts to.

    Attributes
    ----------
    formulation : str
        As it would be written: ``HNPSVM(C1=1.0, C2=4.0)``.
    data : str
        What it was verified on.
    rows : list of Row
    seconds : float
    """

    formulation: str
    data: str
    rows: list[Row] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether no check failed and, for every plane, a duality check passed.

        A run in which no solver was accurate enough to compare anything is not a pass.
        """
        if any(row.status == "fail" for row in self.rows):
            return False
        planes = {row.plane for row in self.rows if row.plane}
        evidence = {row.plane for row in self.rows if row.status == "pass" and row.check in _DECISIVE}
        return bool(planes) and planes <= evidence

    @property
    def counts(self) -> dict[str, int]:
        """How many rows have each status."""
        found = Counter(row.status for row in self.rows)
        return {status: found.get(status, 0) for status in ("pass", "fail", "solver", "skip")}

    @property
    def diagnosis(self) -> str:
        """One sentence: what disagrees with what, or that nothing does."""
        return diagnose(self.rows) if not self.passed else self.summary

    @property
    def summary(self) -> str:
        """The count of what ran, in a sentence; a skipped check is never counted as passed."""
        n = self.counts
        ran = n["pass"] + n["fail"]
        parts = [f"{n['pass']} of {ran} checks that ran passed"]
        if n["solver"]:
            parts.append(f"{n['solver']} say that a solver, not the formulation, fell short")
        if n["skip"]:
            parts.append(f"{n['skip']} do not apply")
        return "; ".join(parts)

    def to_frame(self) -> pd.DataFrame:
        """Return the rows: columns check, value, tolerance, status, meaning; index plane and solver."""
        frame = pd.DataFrame([asdict(row) for row in self.rows], columns=[*COLUMNS, "plane", "solver"])
        return frame.set_index(["plane", "solver"])[COLUMNS]

    def raise_for_failures(self) -> None:
        """Raise VerificationError, whose message is the diagnosis, unless the verification passed."""
        if not self.passed:
            raise VerificationError(f"{self.formulation} on {self.data}: {self.diagnosis}")

    def to_json(self) -> str:
        """Return everything as JSON; figures that are not finite are null."""
        rows = [{k: _json_value(v) for k, v in asdict(row).items()} for row in self.rows]
        return json.dumps(
            {
                "formulation": self.formulation,
                "data": self.data,
                "passed": self.passed,
                "diagnosis": self.diagnosis,
                "counts": self.counts,
                "rows": rows,
            },
            indent=1,
        )

    def _repr_html_(self) -> str:
        verdict = "passed" if self.passed else "failed"
        table = self.to_frame().reset_index().to_html(index=False, border=0, escape=True, float_format="{:.1e}".format)
        return (
            f"<p><strong>{html.escape(self.formulation)}</strong> on {html.escape(self.data)}: {verdict}. "
            f"{html.escape(self.diagnosis)}</p>{table}"
        )

    def __str__(self) -> str:
        return f"{self.formulation} on {self.data}: {'passed' if self.passed else 'FAILED'}. {self.diagnosis}"


_DECISIVE = ("strong duality", "conic dual")


def _json_value(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def diagnose(rows: Iterable[Row]) -> str:
    """Say where the mistake is, from the pattern of what failed.

    The checks that name a place come first: a wrong conjugate, domain, objective or recovery also makes duality and
    agreement fail, and saying only that would leave the search to the reader.
    """
    failed = [row for row in rows if row.status == "fail"]
    if not failed:
        return "nothing was shown wrong, but no solver was accurate enough to show it right"
    order = ("declaration", "curvature", "primal", "conjugate", "dual domain", "dual function", "plane from dual")
    for check in order:
        for row in failed:
            if row.check == check:
                return row.meaning + _consequences(failed, check)
    names = {row.check for row in failed}
    if "conic dual" in names and "strong duality" in names:
        return (
            f"{failed[0].meaning}; the dual function is right at random multipliers: look at the primal's constraints"
        )
    return failed[0].meaning


def _consequences(failed: Sequence[Row], named: str) -> str:
    others = sorted({row.check for row in failed} - {named})
    return f" (and so {', '.join(others)} disagree)" if others else ""


def verify(
    formulation: str | Path | type[Formulation] | type[Loss] | Formulation | Loss,
    data: str | tuple[ArrayLike, ArrayLike] | None = None,
    *,
    solvers: Sequence[str] = ("clarabel", "osqp", "ecos"),
    kernel: str = "linear",
    gamma: float | str = "scale",
    scheme: Scheme | None = None,
    max_rows: int | None = None,
    max_planes: int | None = None,
    random_state: int = 0,
) -> Verification:
    r"""Check a formulation: its primal, its dual, the way between them, and the fast solver, on data.

    Parameters
    ----------
    formulation : name, path, class or object
    data : str, (X, y) or None
        A data set's name, arrays, or None for a small seeded instance of three overlapping classes.
    solvers : sequence of str
        General solvers to compare: clarabel, osqp, ecos, scs, highs.
    kernel : str
        "linear", or any pairwise kernel of scikit-learn; ``gamma`` goes with it ("scale" as in scikit-learn).
    scheme : {"farthest", "nearest"}, optional
        The formulation's own by default.
    max_rows : int, optional
        Stratified subsample of the data, for sets too large for the general solvers.
    max_planes : int, optional
        Verify only the first classes' planes; the check of predictions then does not apply.
    random_state : int
        Of the seeded instance, the subsample and the random multipliers.

    Returns
    -------
    Verification

    Raises
    ------
    NPSVMError
        A bad argument, named.  A formulation that is wrong is not an error: it is a failed row.

    Examples
    --------
    >>> answer = verify("hnpsvm", solvers=["clarabel"])
    >>> answer.passed, answer.counts["fail"]
    (True, 0)
    >>> list(answer.to_frame().columns)
    ['check', 'value', 'tolerance', 'status', 'meaning']
    """
    chosen = resolve(formulation)
    chosen.check_hyperparameters()
    names = check_solvers(solvers)
    X, y, label = _data(data, max_rows, random_state)
    width = scale_gamma(X) if gamma == "scale" else gamma
    if not isinstance(width, int | float) or isinstance(width, bool):
        raise NPSVMError(f"gamma={gamma!r} must be a positive number or 'scale'.")
    # threads of BLAS on matrices this small wait for each other longer than they compute
    few = threadpool_limits(1, user_api="blas") if len(X) <= _FEW_ROWS else contextlib.nullcontext()
    with few:
        rows = Rows.of(kernel, X, gamma=width)(X)
        found = _found(chosen, rows, y, scheme or chosen.scheme, names, max_planes, random_state)
    return Verification(str(chosen), label if kernel == "linear" else f"{label}, {kernel} kernel", found)


_FEW_ROWS = 1000


def _found(
    chosen: Formulation,
    rows: Array,
    y: Array,
    used: Scheme,
    names: tuple[str, ...],
    max_planes: int | None,
    random_state: int,
) -> list[Row]:
    """Run every check on each class's plane, then those that need all of them, then the derivation elsewhere."""
    classes = np.unique(y)
    planes = classes[:max_planes]
    found: list[Row] = []
    instances: list[Instance] = []
    for k in planes:
        S, R = class_matrices(rows, y, k, used)
        instance = Instance(chosen, S, R, str(k), names, seed=random_state)
        instances.append(instance)
        found += [replace(row, plane=str(k)) for row in _run(instance)]
        if any(row.check in ("declaration", "curvature") and row.status == "fail" for row in found):
            break
    else:
        found += _whole(instances, rows, y, classes, used)
        found += _elsewhere(instances[0])
    return found


def _elsewhere(instance: Instance) -> list[Row]:
    """Check the derivation at other hyperparameters: C1 = C2 = 1 hides one written for the other.

    At settings of opposite order, since a bound in the wrong hyperparameter binds only where that is the smaller.
    """
    found: list[Row] = []
    for factors, checks in _SETTINGS:
        moved = generic(instance.formulation, factors)
        if moved is None or (checks is not DERIVATION and not _exact(moved)):
            continue
        changed = {k: v for k, v in moved.get_params().items() if v != instance.formulation.get_params()[k]}
        where = ", ".join(f"{name} = {value:.3g}" for name, value in changed.items())
        there = Instance(moved, instance.S, instance.R, instance.label, instance.solvers[:1], seed=instance.seed)
        found += [
            replace(row, plane=instance.label, meaning=f"{row.meaning}, at {where}")
            for row in _run(there, checks)
            if row.status != "skip"
        ]
        if any(row.status == "fail" for row in found):
            break
    return found


# two near the defaults, of opposite order, and two far from them, where a bound such as min(C2, 10) is wrong only; far
# away is looked at where the Lagrangian is minimised exactly, for there a solver's accuracy would be in the way
_SETTINGS: tuple[tuple[tuple[float, ...], Sequence[Callable[[Instance], Iterable[Row]]]], ...] = (
    ((0.37, 2.3, 0.6, 1.4), DERIVATION),
    ((2.3, 0.37, 1.4, 0.6), DERIVATION),
    ((1 / 61.0, 67.0, 53.0, 59.0), (dual_function, conjugate)),
    ((67.0, 1 / 61.0, 1 / 53.0, 1 / 59.0), (dual_function, conjugate)),
)


def _exact(formulation: Formulation) -> bool:
    try:
        return isinstance(compile(formulation), BoxQP | BoxLP)
    except FormulationError:
        return False


def generic(formulation: Formulation, factors: Sequence[float] = _SETTINGS[0][0]) -> Formulation | None:
    """Return the formulation at hyperparameters with nothing in common, each inside its interval; None without any.

    >>> generic(resolve("nppc"))
    NPPC(C1=0.37, C2=2.3, d=0.3)
    >>> generic(resolve("hnpsvm"), (2.3, 0.37))
    HNPSVM(C1=2.3, C2=0.37)
    """
    try:  # from the defaults, whatever the present setting: at an extreme one the solvers' accuracy would be in the way
        moved = type(formulation)()
    except TypeError:
        moved = clone(formulation)
    start = moved.get_params(deep=True)
    factor = itertools.cycle(factors)
    for name, value in start.items():
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        trial = (value or 1.0) * next(factor)
        for _ in range(12):
            moved.set_params(**{name: moved_to(name, value, float(f"{trial:.12g}"))})
            try:
                moved.check_hyperparameters()
                break
            except NPSVMError:  # an interval that the factor leaves: halve towards where it was
                trial = (trial + value) / 2
        else:
            moved.set_params(**{name: value})
    return None if moved.get_params(deep=True) == start else moved


def _run(instance: Instance, checks: Sequence[Callable[[Instance], Iterable[Row]]] = CHECKS) -> list[Row]:
    try:
        instance.primal, instance.dual  # noqa: B018 - a declaration that cannot be used ends here
    except CurvatureError as error:
        return [Row("curvature", 1.0, 0.0, "fail", str(error))]
    except FormulationError as error:
        return [Row("declaration", 1.0, 0.0, "fail", str(error))]
    rows: list[Row] = []
    for check in checks:
        try:
            rows += list(check(instance))
        except (FormulationError, ArithmeticError) as error:
            rows.append(Row(check.__name__.replace("_", " "), float("nan"), 0.0, "fail", _one_line(error)))
    return rows


def _whole(instances: list[Instance], rows: Array, y: Array, classes: Array, scheme: Scheme) -> list[Row]:
    """The checks that need every class's plane: predictions, and the order of the classes."""
    if len(instances) < len(classes):
        return [_predictions_skip(f"{len(instances)} of {len(classes)} planes were verified")]
    fast = [i.sor[1] if i.sor is not None else None for i in instances]
    slow = [best.plane if (best := i.best_primal()) is not None else None for i in instances]
    if any(z is None for z in slow):
        return [Row("predictions", math.nan, math.nan, "solver", "no solver solved every primal accurately")]
    if any(z is None for z in fast):
        return [_predictions_skip("SOR does not apply")]
    exact = [i.sor is not None and i.sor[0].relative_gap <= 1e-6 for i in instances]
    if not all(exact):
        return [Row("predictions", math.nan, math.nan, "solver", "SOR did not reach its gap on every plane")]
    one, two = np.array(fast), np.array(slow)
    first, second = distances(rows, one), distances(rows, two)
    # a sample whose two best classes lie closer than the planes agree is a tie, and either answer is right
    ordered = np.sort(first, axis=1)
    lead = ordered[:, -1] - ordered[:, -2] if scheme == "farthest" else ordered[:, 1] - ordered[:, 0]
    clear = lead > 2 * np.maximum(np.abs(first - second).max(axis=1), PLANES * np.abs(first).max(axis=1))
    if not clear.any():
        return [_predictions_skip("no sample is clear of a tie"), _class_order(instances, rows, y, classes, scheme)]
    differ = int((decide(first, scheme) != decide(second, scheme))[clear].sum())
    row = Row(
        "predictions",
        differ / max(int(clear.sum()), 1),
        0.0,
        "pass" if differ == 0 else "fail",
        f"SOR's planes and the general solvers' classify {int(clear.sum())} of {len(rows)} clear samples alike"
        if differ == 0
        else f"SOR's planes and the general solvers' classify {differ} of {int(clear.sum())} clear samples differently",
    )
    return [row, _class_order(instances, rows, y, classes, scheme)]


def _predictions_skip(why: str) -> Row:
    return Row("predictions", math.nan, math.nan, "skip", why)


def _class_order(instances: list[Instance], rows: Array, y: Array, classes: Array, scheme: Scheme) -> Row:
    """Rename the classes so that their order reverses: each class must keep its matrices."""
    renamed = len(classes) - 1 - np.searchsorted(classes, y)
    same = True
    for at, instance in enumerate(instances):
        S, R = class_matrices(rows, renamed, len(classes) - 1 - at, scheme)
        same &= np.array_equal(S, instance.S) and np.array_equal(R, instance.R)
    return Row(
        "invariances",
        0.0 if same else 1.0,
        0.0,
        "pass" if same else "fail",
        "class order: nothing changes" if same else "class order: the matrices of a class changed",
    )


def _data(data: Any, max_rows: int | None, random_state: int) -> tuple[Array, Array, str]:
    if max_rows is not None and not max_rows >= 2:
        raise NPSVMError(f"max_rows={max_rows!r} must be at least 2.")
    if data is None:
        X, y = seeded_instance(random_state)
        return X, y, "a seeded instance (60 x 3, 3 classes)"
    if isinstance(data, str):
        X, y = as_arrays(load_dataset(data))
        label = data
    else:
        X, y = _arrays(data)
        label = "your data"
    label = f"{label} ({X.shape[0]} x {X.shape[1]})"
    if max_rows is not None and len(X) > max_rows:
        X, y = stratified_subsample(X, y, max_rows, random_state=random_state)
        label = f"{label[:-1]}, {len(X)} rows of it)"
    return X, y, label


def _arrays(data: Any) -> tuple[Array, Array]:
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise NPSVMError("data must be a data set's name, a pair (X, y), or None.")
    try:
        X = np.asarray(data[0], dtype=float)
    except (TypeError, ValueError):
        raise NPSVMError("data: X must be numeric; encode text columns first.") from None
    y = np.asarray(data[1])
    if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] == 0:
        raise NPSVMError(f"data: X must be a matrix with rows and columns; found shape {X.shape}.")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y.ravel()
    if y.ndim != 1 or len(y) != len(X):
        raise NPSVMError(f"data: y must hold one label a row of X; found shape {y.shape} for {len(X)} rows.")
    if not np.isfinite(X).all():
        raise NPSVMError("data: X holds NaN or infinity.")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise NPSVMError("data: y holds NaN or infinity.")
    if y.dtype == object:
        y = np.asarray([str(label) for label in y])
    if len(np.unique(y)) < 2:
        raise NPSVMError(f"data: y holds one class ({y[0]!r}); two are needed.")
    return X, y


def seeded_instance(random_state: int = 0) -> tuple[Array, Array]:
    """Return a small instance (60 x 3) of three overlapping classes, on which every constraint is met by some sample.

    >>> X, y = seeded_instance()
    >>> X.shape, np.unique(y).tolist()
    ((60, 3), ['a', 'b', 'c'])
    """
    rng = np.random.default_rng(random_state)
    centres = np.array([[0.0, 0.0, 0.0], [1.5, 0.5, 0.0], [0.0, 1.5, 1.0]])
    y = np.repeat(np.array(["a", "b", "c"]), 20)
    return rng.normal(size=(60, 3)) + np.repeat(centres, 20, axis=0), y


def environment() -> dict[str, str]:
    """Return the versions and the machine that a report states."""
    names = (
        "npsvm-cvx",
        "cvxpy",
        "clarabel",
        "osqp",
        "ecos",
        "scs",
        "highspy",
        "numpy",
        "scipy",
        "numba",
        "scikit-learn",
    )
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except Exception:
            found[name] = "not installed"
    return {"python": platform.python_version(), **found}


__all__ = ["Verification", "VerificationError", "diagnose", "environment", "seeded_instance", "verify"]
