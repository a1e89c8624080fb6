"""The figures of a losses report: ranks, the losses and their conjugates, regions on the toy sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ..plotting import PALETTE, DecisionRegionDisplay, view
from .figures import STYLE, Picture, save
from .losses_tables import newcomers, scores
from .paired import average_ranks
from .trials import TOYS

_NEW = (PALETTE[2], PALETTE[0], PALETTE[6])  # what is new, and nothing else
_GREY, _INK = "#8a94a3", "#222222"
_DASHES: tuple[Any, ...] = ("solid", (0, (6, 3)), (0, (1.2, 1.8)))
_MOST = 5  # columns of regions
_RESOLUTION = 150


def draw(frame: pd.DataFrame, out: Path) -> list[Picture]:
    """Draw every figure there is something for into ``out`` and return them."""
    ranks, new = average_ranks(scores(frame)), newcomers(frame)
    colours = {name: _NEW[i % len(_NEW)] for i, name in enumerate(new)}
    drawings: list[tuple[str, str, Figure | None]] = []
    with mpl.rc_context(STYLE):
        drawings.append(("ranks", _RANKS, _ranks(ranks.mean, ranks.each, colours) if len(ranks.mean) else None))
        drawings.append(("losses", _LOSSES, _losses(frame[frame["kind"] == "curves"], colours)))
        drawings.append(("regions", _REGIONS, _regions(frame[frame["kind"] == "toy"], new, list(ranks.mean.index))))
        return [save(name, caption, figure, out) for name, caption, figure in drawings if figure is not None]


_RANKS = (
    "Ranks by mean accuracy: a dot a set, and their mean. Left is better; dots are spread a little so that none hides "
    "another."
)
_LOSSES = (
    "The losses L(t) of the margin t, and their conjugates L*(v), which are infinite where no line is drawn. "
    "Formulations of one loss share a line."
)
_REGIONS = (
    "What each decides on the paper's toy sets, with the planes of its classes, at the (C1, C2) that cross-validation "
    "chooses there: the new ones, and the best ranked of the others with either scheme. Accuracy is on the samples "
    "drawn."
)


def _ranks(mean: pd.Series, each: pd.DataFrame, colours: dict[str, str]) -> Figure:
    figure = Figure(figsize=(7.6, 0.9 + 0.3 * len(mean)))
    axis = figure.subplots()
    for at, (name, value) in enumerate(mean.items()):
        colour = colours.get(str(name), _GREY)
        spread = np.linspace(-0.16, 0.16, len(each)) if len(each) > 1 else [0.0]
        axis.plot(each[name], at + np.asarray(spread), "o", color=colour, alpha=0.4, markersize=4, markeredgewidth=0)
        axis.plot(value, at, "D", color=colour, markersize=7, markeredgecolor="white")
        axis.annotate(f"{value:.1f}", (value, at), (0, 8), textcoords="offset points", ha="center", fontsize=7.5)
    axis.set_yticks(range(len(mean)), [str(name) for name in mean.index])
    for label in axis.get_yticklabels():
        if label.get_text() in colours:
            label.set_color(colours[label.get_text()])
            label.set_fontweight("bold")
    axis.set_xlim(0.5, len(mean) + 0.5)
    axis.set_xticks(range(1, len(mean) + 1))
    axis.set_ylim(len(mean) - 0.4, -0.75)
    axis.set_xlabel("rank")
    axis.grid(True, axis="x", color="#ececec", linewidth=0.7)
    axis.set_axisbelow(True)
    axis.tick_params(axis="y", length=0)
    return figure


def _losses(curves: pd.DataFrame, colours: dict[str, str]) -> Figure | None:
    if curves.empty:
        return None
    groups = _alike(curves, set(colours))
    lines = -(-len(groups) // 3)  # of the legend
    figure = Figure(figsize=(9.4, 3.4 + 0.18 * lines))
    axes = figure.subplots(1, 2)
    free = [colour for colour in PALETTE if colour not in _NEW]
    styles: dict[str, dict[str, Any]] = {}
    for label, names in groups.items():
        if names[0] in colours:
            styles[label] = {"color": colours[names[0]], "linewidth": 5.0, "alpha": 0.45, "solid_capstyle": "butt"}
            continue
        at = sum("linestyle" in style for style in styles.values())
        # broken lines above whole ones: where losses are equal, each shows through the gaps of the next
        dash = at % len(_DASHES)
        styles[label] = {
            "color": free[at % len(free)],
            "linewidth": 1.5,
            "linestyle": _DASHES[dash],
            "zorder": 3 + dash,
        }
    panels = (("loss", "loss L(t)", "margin t", (-0.9, 6.0)), ("conjugate", "conjugate L*(v)", "v", (-2.2, 4.2)))
    for axis, (kind, title, variable, limits) in zip(axes, panels, strict=True):
        rows = curves[curves["curve"] == kind]
        for label, names in groups.items():
            own = rows[rows["contender"] == names[0]]
            axis.plot(own["x"], own["y"].where(own["y"].between(-50, 50)), label=label, **styles[label])
        axis.axhline(0, color="#dddddd", linewidth=0.8, zorder=0)
        axis.set_ylim(*limits)
        axis.set_xlabel(variable)
        axis.set_title(title, loc="left", fontsize=10)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=3, frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, (0.05 + 0.18 * lines) / figure.get_figheight(), 1, 1))
    return figure


def _alike(curves: pd.DataFrame, new: set[str]) -> dict[str, list[str]]:
    """Return contenders by a label, those of one loss together, but never what is new with what is not."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for name, rows in curves[curves["curve"] == "loss"].groupby("contender", sort=False):
        shape = tuple((rows["y"].fillna(np.inf).clip(-1e6, 1e6) + 0.0).round(4))
        groups.setdefault((str(name) if name in new else "", *shape), []).append(str(name))
    return {", ".join(names): names for names in groups.values()}


def _regions(toys: pd.DataFrame, new: list[str], ranked: list[str]) -> Figure | None:
    toys = toys[toys["status"] == "done"]
    whole = toys["contender"].value_counts() == len(TOYS)
    toys = toys[toys["contender"].map(whole)]
    scheme = dict(zip(toys["contender"], toys["scheme"], strict=True))
    others = [name for name in ranked if name not in new and name in scheme]
    best = {scheme[name]: name for name in reversed(others)}
    columns = [*(name for name in new if name in scheme), *sorted(best.values(), key=others.index)][:_MOST]
    if not columns:
        return None
    figure = Figure(figsize=(2.7 * len(columns) + 0.2, 5.2), layout="constrained")
    axes = figure.subplots(len(TOYS), len(columns), squeeze=False)
    for line, (name, make) in zip(axes, TOYS.items(), strict=True):
        X, y = make()
        for axis, label in zip(line, columns, strict=True):
            row = toys[(toys["dataset"] == name) & (toys["contender"] == label)].iloc[0]
            _region(row, X, y).plot(
                axis, legend=False, scatter_kwargs={"s": 9, "linewidths": 0.3}, plane_kwargs={"linewidths": 1.6}
            )
            axis.set_xticks([])
            axis.set_yticks([])
            axis.spines[:].set_visible(False)
            axis.set_xlabel(_setting(row), fontsize=8)
            axis.set_title(f"{label}, {row['scheme']}", fontsize=9, fontweight="bold" if label in new else "normal")
    return figure


def _region(row: pd.Series, X: np.ndarray, y: np.ndarray) -> DecisionRegionDisplay:
    planes = np.array([[float(value) for value in plane.split()] for plane in str(row["planes"]).split(";")])
    xx0, xx1 = view(X, _RESOLUTION)
    values = np.dstack([xx0, xx1, np.ones_like(xx0)]) @ planes.T
    if row["scheme"] == "farthest":
        score = np.abs(values)
    else:
        norms = np.linalg.norm(planes[:, :-1], axis=1)
        score = -np.abs(values) / np.where(norms > 1e-10 * np.abs(planes[:, -1]), norms, 1e-300)
    return DecisionRegionDisplay(
        xx0=xx0,
        xx1=xx1,
        response=score.argmax(axis=2),
        classes=np.unique(y),
        scores=score,
        plane_values=values,
        scheme=row["scheme"],
        X=X,
        y=np.searchsorted(np.unique(y), y),
    )


def _setting(row: pd.Series) -> str:
    parts = [f"{name} = {row[name]:.3g}" for name in ("C1", "C2") if pd.notna(row[name])]
    return ", ".join([*parts, f"accuracy {row['accuracy']:.0%}"])
