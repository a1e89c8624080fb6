"""The figures of a verification report, from its tidy table: SVG for the page, PNG for everything else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from .. import datasets
from ..errors import NPSVMError
from ..plotting import PALETTE
from .analysis import digits

STYLE = {
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "npsvm-cvx",  # the same figure is the same bytes
    "figure.facecolor": "white",
}
_COLOURS = dict(zip(("clarabel", "osqp", "sor", "ecos", "highs", "scs"), PALETTE, strict=False))


@dataclass(frozen=True)
class Picture:
    """A drawn figure: its file name without extension, its caption, its SVG text, and the table that it goes before.

    Without one it goes before all of them.
    """

    name: str
    caption: str
    svg: str
    before: str = ""


def draw(frame: pd.DataFrame, out: Path) -> list[Picture]:
    """Draw every figure into ``out`` and return them."""
    with mpl.rc_context(STYLE):
        drawn = [
            ("agreement", _AGREEMENT, _agreement(frame)),
            ("solvers", _SOLVERS, _solvers(frame)),
        ]
        return [save(name, caption, figure, out) for name, caption, figure in drawn]


_AGREEMENT = (
    "Digits to which SOR, reading the declared dual, and the best general solver, on the declared primal, agree on "
    "the optimum: the worst over settings and planes. A dot marks a problem where SOR itself fell short of 1e-6."
)
_SOLVERS = (
    "Residuals of each solver's answers, one point an answer, in digits: right is better. Below the line of six "
    "digits an answer is not used as evidence. Hollow points: the solver itself did not claim to have solved it."
)


def save(name: str, caption: str, figure: Figure, out: Path, before: str = "") -> Picture:
    """Write a figure as SVG and PNG; return what a page shows of it."""
    svg = out / f"{name}.svg"
    for path, how in ((svg, {"metadata": {"Date": None}}), (svg.with_suffix(".png"), {"dpi": 150})):
        try:
            figure.savefig(path, bbox_inches="tight", **how)
        except OSError as error:
            raise NPSVMError(f"{path} cannot be written: {error.strerror or error}.") from error
    text = svg.read_text(encoding="utf-8")
    return Picture(name, caption, text[text.index("<svg") :], before)


def _agreement(frame: pd.DataFrame) -> Figure:
    names = sorted(frame["formulation"].unique())
    sets = [name for name in datasets.DATASETS if name in set(frame["dataset"])]
    figure = Figure(figsize=(1.6 + 0.46 * 2 * len(sets) * 0.62 + 1.5, 1.4 + 0.3 * len(names)))
    axes = figure.subplots(1, 2, sharey=True)
    keys = ["formulation", "dataset", "C1", "C2", "plane"]
    image = None
    for axis, kernel in zip(axes, ("linear", "rbf"), strict=True):
        rows = frame[(frame["kernel"] == kernel) & (frame["check"] == "SOR agreement") & (frame["solver"] != "planes")]
        good = rows[rows["status"].isin(["pass", "fail"])]
        best = good.groupby(keys, dropna=False)["value"].min().groupby(["formulation", "dataset"]).max()
        grid = np.full((len(names), len(sets)), np.nan)
        for (name, dataset), value in best.items():
            grid[names.index(name), sets.index(dataset)] = digits(float(value))
        image = axis.imshow(grid, vmin=4, vmax=14, cmap="YlGnBu", aspect="auto")
        short = rows[(rows["status"] == "solver") & (rows["solver"] == "sor")]
        for name, dataset in set(zip(short["formulation"], short["dataset"], strict=True)):
            axis.plot(sets.index(dataset), names.index(name), "o", color=_COLOURS["sor"], markersize=3)
        axis.set_xticks(range(len(sets)), sets, rotation=60, ha="right")
        axis.set_yticks(range(len(names)), names)
        axis.set_title("linear" if kernel == "linear" else "RBF", loc="left", fontsize=10)
        axis.tick_params(length=0)
        for side in axis.spines.values():
            side.set_visible(False)
    assert image is not None
    bar = figure.colorbar(image, ax=list(axes), fraction=0.025, pad=0.02)
    bar.set_label("digits")
    return figure


def _solvers(frame: pd.DataFrame) -> Figure:
    rows = frame[(frame["check"] == "KKT") & (frame["claim"] != "")]
    sor = frame[frame["check"] == "certified gap"].assign(solver="sor")
    solvers = ["sor", *sorted(rows["solver"].unique())]
    figure = Figure(figsize=(8.0, 0.62 * len(solvers) + 0.9))
    axis = figure.subplots()
    rng = np.random.default_rng(0)
    for at, name in enumerate(solvers):
        group = sor if name == "sor" else rows[rows["solver"] == name]
        value = np.array([digits(v) if v is not None else np.nan for v in group["value"]], dtype=float)
        claimed = group["status"].eq("pass").to_numpy() if name == "sor" else group["claim"].eq("solved").to_numpy()
        if len(value) > 1500:  # a picture of all of them would be a bar
            keep = np.sort(np.argsort(value)[:300].tolist() + rng.choice(len(value), 1200, replace=False).tolist())
            value, claimed = value[keep], claimed[keep]
        height = at + rng.uniform(-0.28, 0.28, size=len(value))
        colour = _COLOURS.get(name, "#555555")
        for mask, face in ((claimed, colour), (~claimed, "none")):
            axis.scatter(
                value[mask],
                height[mask],
                s=9,
                facecolors=face,
                edgecolors=colour,
                linewidths=0.6,
                alpha=0.55,
                rasterized=True,
            )
        median = float(np.nanmedian(value))
        axis.plot([median, median], [at - 0.36, at + 0.36], color="#222222", linewidth=1.4)
    axis.axvline(6, color="#888888", linewidth=0.8, linestyle="--")
    axis.set_yticks(range(len(solvers)), ["SOR (gap)" if s == "sor" else s for s in solvers])
    axis.set_xlim(-0.3, 16.6)
    axis.set_xlabel("digits of the largest residual")
    axis.invert_yaxis()
    axis.tick_params(axis="y", length=0)
    return figure
