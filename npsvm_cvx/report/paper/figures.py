"""The figures of the paper report: SVG for the page, PNG for everything else."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from ... import catalog
from ...baselines import GEPSVM
from ...estimator import NPSVMClassifier
from ...linalg import Array
from ...planes import ZeroNormalWarning
from ...plotting import PALETTE, DecisionRegionDisplay
from .. import statistics
from ..figures import STYLE, Picture, save
from . import sets, tables, toys
from .cells import DIFFERS, EXPLAINED, REPRODUCES, Beside, Cells
from .methods import methods
from .results import parsed
from .work import PAPER, family

_VERDICT = {REPRODUCES: PALETTE[0], EXPLAINED: PALETTE[1], DIFFERS: PALETTE[2]}


def draw(rows: Sequence[Beside], found: Cells, table: pd.DataFrame, out: Path) -> list[Picture]:
    """Draw every figure of which something was run into ``out``, and return them."""
    drawings: list[tuple[str, str, str, Callable[[], Figure | None]]] = [
        ("beside", _BESIDE, "", lambda: _beside(rows)),
        (
            "figure1",
            _FIGURE.format(1, "cross planes"),
            tables.toy_table({}).title,
            lambda: _toys("cross_planes", table),
        ),
        ("figure2", _FIGURE.format(2, "three lines"), tables.toy_table({}).title, lambda: _toys("three_lines", table)),
        ("variants", _VARIANTS, tables.toy_table({}).title, lambda: _variants(table)),
        ("ranks_linear", _RANKS.format("linear"), _DIFFER, lambda: _ranks(found, "linear")),
        ("ranks_rbf", _RANKS.format("Gaussian kernel"), _DIFFER, lambda: _ranks(found, "rbf")),
        ("optimism", _OPTIMISM, _DIFFER, lambda: _optimism(found)),
    ]
    pictures = []
    with mpl.rc_context(STYLE):
        for name, caption, before, drawing in drawings:
            figure = drawing()
            if figure is not None:
                pictures.append(save(name, caption, figure, out, before))
            else:  # one of an earlier run would be taken for this one's
                for ending in (".svg", ".png"):
                    (out / name).with_suffix(ending).unlink(missing_ok=True)
    return pictures


_DIFFER = "Do the methods differ?"
_BESIDE = (
    "Ours against the paper's, every figure that was at hand, with two standard deviations of our folds. On the line "
    "they are equal; those beyond two standard errors of our mean are named."
)
_RULE = (
    " A region has the colour of the class that wins there, a line that of the class whose plane it is: by the nearest "
    "rule it runs along its class, by the farthest (BHNPSVM, MHNPSVM, MBSVM and the like) along the other classes. "
    "The SVM's planes, one a pair of classes, are grey; of 1-v-r each class's own is drawn. Planes that do not cross "
    "the view are not seen."
)
_FIGURE = "Figure {}: regions and planes on the {}, each method at the best setting of Table 1." + _RULE
_VARIANTS = "Every formulation on both toy sets, at the best setting of Table 1; lines and colours as in Figure 1."
_RANKS = (
    "Average ranks of nested accuracies over the sets, {}; methods that a bar joins are not told apart by Nemenyi's "
    "test at 5 %."
)
_OPTIMISM = (
    "What choosing the setting on the folds that judge it adds: best mean over the folds minus nested "
    "cross-validation, one point a set; the line is the median."
)


def _beside(rows: Sequence[Beside]) -> Figure | None:
    known = [row for row in rows if row.ours is not None and not math.isnan(row.theirs)]
    if not known:
        return None
    figure = Figure(figsize=(8.4, 4.6), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    low = min(min(r.theirs, r.ours.accuracy) for r in known if r.ours) - 4
    for axis, kernel in zip(panels, tables.KERNEL, strict=True):
        axis.plot([low, 101], [low, 101], color="#999999", linewidth=0.8, zorder=0)
        labels: list[tuple[tuple[float, float], str]] = []
        for row in known:
            if row.kernel != kernel or row.ours is None:
                continue
            at = (row.theirs, row.ours.accuracy)
            colour = _VERDICT[row.verdict]
            axis.errorbar(*at, yerr=2 * row.ours.sd, fmt="o", color=colour, markersize=4.5, elinewidth=0.8, alpha=0.9)
            if not row.close:
                name = row.row if row.column in ("SVM", "1-v-1") else f"{row.row}, {row.column}"
                labels.append((at, name))
        points = [(row.theirs, row.ours.accuracy) for row in known if row.kernel == kernel and row.ours]
        _label(axis, labels, points, low)
        axis.set_xlim(low, 101)
        axis.set_ylim(low, 104)
        axis.set_title(tables.KERNEL[kernel].capitalize(), loc="left", fontsize=10)
        axis.set_xlabel("the paper's accuracy")
        axis.grid(True, color="#eeeeee", linewidth=0.6)
    panels[0].set_ylabel("ours, best mean over the folds")
    present = [v for v in _VERDICT if any(row.verdict == v for row in known)]
    handles = [mpl.lines.Line2D([], [], marker="o", linestyle="", color=_VERDICT[v], label=v) for v in present]
    panels[1].legend(handles=handles, frameon=False, loc="upper left")
    return figure


def _label(
    axis: Any, labels: Sequence[tuple[tuple[float, float], str]], points: Sequence[tuple[float, float]], low: float
) -> None:
    """Write each label beside its point, on the first of four sides where it meets no other and stays inside."""
    taken = [(x - 1, x + 1, y - 1, y + 1) for x, y in points]
    for (x, y), name in sorted(labels):
        width, height = 0.95 * len(name) + 0.5, 2.4  # points of accuracy, as the panel is drawn
        boxes = {
            (1.2, 0.4, "left"): (x + 1.2, x + 1.2 + width, y - 0.6, y + height - 0.6),
            (-1.2, 0.4, "right"): (x - 1.2 - width, x - 1.2, y - 0.6, y + height - 0.6),
            (0.0, 2.0, "center"): (x - width / 2, x + width / 2, y + 1.1, y + 1.1 + height),
            (0.0, -2.6, "center"): (x - width / 2, x + width / 2, y - 1.5 - height, y - 1.5),
        }

        def crowded(box: tuple[float, float, float, float]) -> int:
            outside = box[0] < low or box[1] > 101
            return 10 * outside + sum(box[0] < b and a < box[1] and box[2] < d and c < box[3] for a, b, c, d in taken)

        (dx, dy, side), box = min(boxes.items(), key=lambda each: crowded(each[1]))
        axis.text(x + dx, y + dy, name, ha=side, va="center", fontsize=8)
        taken.append(box)


# --- regions -----------------------------------------------------------------------------------------------


def _settings(dataset: str, table: pd.DataFrame) -> dict[str, dict[str, float]]:
    rows = table[(table["dataset"] == dataset) & (table["kernel"] == "linear") & (table["failed"] == "")]
    return {str(row["method"]): parsed(row)["setting"] for row in rows.to_dict("records")}


def _model(method: str, setting: dict[str, float]) -> Any:
    kind = methods()[method].kind
    if kind == "eigenvalues":
        model: Any = GEPSVM(setting["delta"])
    elif kind.startswith("svc"):
        model = SVC(kernel="linear", max_iter=1_000_000, **setting)
    else:
        model = NPSVMClassifier(catalog.load(methods()[method].formulation)(**setting), tol=1e-6)
    return OneVsRestClassifier(model) if kind.endswith("one-versus-rest") else model


def _draw_region(axis: Any, method: str, dataset: str, setting: dict[str, float]) -> None:
    X, y = toys.NAMES[dataset](random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", ZeroNormalWarning)
        model = make_pipeline(StandardScaler(), _model(method, setting)).fit(X, y)
        shown = DecisionRegionDisplay.from_estimator(
            model,
            X,
            y,
            ax=axis,
            legend=False,
            grid_resolution=160,
            scatter_kwargs={"s": 7, "linewidths": 0.2, "rasterized": True},
        )
        for values, colour in _other_planes(model, np.column_stack([shown.xx0.ravel(), shown.xx1.ravel()])):
            if values.min() < 0 < values.max():
                grid = values.reshape(shown.xx0.shape)
                axis.contour(shown.xx0, shown.xx1, grid, levels=[0.0], colors=[colour], linewidths=1.4, zorder=3)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_xlabel("")
    axis.set_ylabel("")


def _other_planes(model: Any, points: Array) -> list[tuple[Array, str]]:
    """Return what is zero on the planes that a display does not know, and their colours.

    Those are the SVM's, in grey, and of models one against the rest each class's own, in its colour.
    """
    last, rows = model[-1], model[:-1].transform(points)
    if isinstance(last, SVC):
        last.decision_function_shape = "ovo"  # a column a pair: each is a plane
        return [(column, _GREY) for column in last.decision_function(rows).reshape(len(rows), -1).T]
    if not isinstance(last, OneVsRestClassifier):
        return []
    if isinstance(last.estimators_[0], SVC):
        return [(one.decision_function(rows), PALETTE[k]) for k, one in enumerate(last.estimators_)]
    return [(one.plane_values(rows)[:, 1], PALETTE[k]) for k, one in enumerate(last.estimators_)]


_GREY = "#4a5563"


def _toys(dataset: str, table: pd.DataFrame) -> Figure | None:
    settings = _settings(dataset, table)
    chosen = {m: name for m, name in PAPER[family(dataset)].items() if m in settings}
    if not chosen:
        return None
    figure = Figure(figsize=(10.4, 3.0), layout="compressed")
    for axis, (method, name) in zip(figure.subplots(1, len(chosen), squeeze=False)[0], chosen.items(), strict=True):
        _draw_region(axis, method, dataset, settings[method])
        axis.set_title(name, fontsize=10)
    return figure


def _variants(table: pd.DataFrame) -> Figure | None:
    both = {dataset: _settings(dataset, table) for dataset in toys.NAMES}
    chosen = [m for m, method in methods().items() if method.kind == "planes" and all(m in s for s in both.values())]
    if not chosen:
        return None
    columns = 6
    bands = math.ceil(len(chosen) / columns)
    figure = Figure(figsize=(11.0, 3.9 * bands), layout="compressed")
    axes = figure.subplots(2 * bands, columns, squeeze=False)
    for axis in axes.ravel():
        axis.set_axis_off()
    for i, method in enumerate(chosen):
        for j, (dataset, settings) in enumerate(both.items()):
            axis = axes[2 * (i // columns) + j, i % columns]
            axis.set_axis_on()
            _draw_region(axis, method, dataset, settings[method])
            if j == 0:
                axis.set_title(tables.name_of(method), fontsize=10)
    return figure


# --- ranks and optimism ------------------------------------------------------------------------------------


def _ranks(found: Cells, kernel: str) -> Figure | None:
    _, _, names, chosen = next(s for s in tables.scopes() if s[1] == kernel and s[0].startswith("every"))
    test = tables.ranked(found, kernel, names, chosen)
    if test is None or test.contenders < 3:
        return None
    figure = Figure(figsize=(8.4, 0.5 + 0.26 * test.contenders), layout="constrained")
    statistics.diagram(test, figure.subplots())
    return figure


def _optimism(found: Cells) -> Figure | None:
    rows = [
        (kernel, method, cell.optimism)
        for (dataset, kernel, method), cell in found.items()
        if not math.isnan(cell.nested) and dataset in _tabulated() and method in methods()
    ]
    if not rows:
        return None
    frame = pd.DataFrame(rows, columns=["kernel", "method", "optimism"])
    order = [m for m in methods() if (frame["method"] == m).any()]
    figure = Figure(figsize=(8.4, 0.9 + 0.27 * len(order)), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True, sharex=True)
    for axis, kernel in zip(panels, tables.KERNEL, strict=True):
        axis.axvline(0, color="#999999", linewidth=0.8)
        for at, method in enumerate(order):
            values = np.sort(
                frame.loc[(frame["kernel"] == kernel) & (frame["method"] == method), "optimism"].to_numpy()
            )
            if not len(values):
                continue
            axis.plot(values, np.full(len(values), at), "o", color=PALETTE[0], alpha=0.55, markersize=4)
            middle = float(np.median(values))
            axis.plot([middle, middle], [at - 0.35, at + 0.35], color="#222222", linewidth=1.6)
        axis.set_title(tables.KERNEL[kernel].capitalize(), loc="left", fontsize=10)
        axis.set_xlabel("points of accuracy")
        axis.set_yticks(range(len(order)), [tables.name_of(m) for m in order])
        axis.tick_params(axis="y", length=0)
    panels[0].invert_yaxis()
    return figure


def _tabulated() -> tuple[str, ...]:
    # without the other forms that experiments use
    return (*sets.TWO_CLASS, *sets.SEVERAL)
