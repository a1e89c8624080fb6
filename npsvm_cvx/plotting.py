"""Pictures of fitted classifiers with two features, by scikit-learn's Display convention.

Knows planes and scikit-learn's conventions; loads matplotlib when something is drawn, and pyplot only to open a
figure where no axes were given.  Must not know formulations or solvers.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_consistent_length, column_or_1d, gen_batches
from sklearn.utils.validation import check_is_fitted

from .errors import NPSVMError
from .linalg import Array
from .plane_classifier import PlaneClassifier, named

PALETTE = (
    *("#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6"),
    *("#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd"),
)
"""Ten colours that stay apart for colour-blind readers (Petroff 2021, arXiv:2107.02270), as scikit-learn's displays."""

_MARKERS = "os^DvPX<>"  # nine against ten colours: ninety classes before a pair repeats
_TINT, _INK = 0.24, 0.72  # how much of a class's colour a region has, and of its brightness a line
_BLOCK = 10_000  # grid points predicted at once
_FLAT = 1e-10  # a plane that varies by less than this times its size has no line


class DecisionRegionDisplay:
    r"""The regions in which a classifier decides for each class, the classes' planes, and the samples.

    The plane of class k is drawn where :math:`w_k^\top x + b_k = 0`, or, x being replaced by its kernel values or by
    what a pipeline makes of it, as that curve in the features as they were given. Make one by :meth:`from_estimator`.

    Parameters
    ----------
    xx0, xx1 : (rows, columns) arrays
        The grid, as ``numpy.meshgrid`` gives it.
    response : (rows, columns) array of int
        Each grid point's class, an index into ``classes``.
    classes : (K,) array
        Labels.
    scores : (rows, columns, K) array, optional
        The largest of a point's scores is its class's; says where between grid points a region ends. Halfway, without.
    plane_values : (rows, columns, K) array, optional
        What is zero on each class's plane.
    scheme : {"farthest", "nearest"}, optional
        Which plane decides.
    X : (samples, 2) array, optional
    y : (samples,) array of int, optional
        Each sample's class, an index into ``classes``.
    xlabel, ylabel : str, optional

    Attributes
    ----------
    regions_ : list of matplotlib QuadContourSet
        One a class; None for a class with no region in view.
    planes_ : list of matplotlib QuadContourSet
        One a class; None for a plane that is not in view, or has w = 0 and is nowhere. The legend says so.
    samples_ : list of matplotlib PathCollection
        One a class; empty without samples.
    legend_ : matplotlib Legend or None
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    See Also
    --------
    sklearn.inspection.DecisionBoundaryDisplay : Scores as a surface, and regressors and clusterers too.

    References
    ----------
    Yang, Shao, Jiang (2015), *A learning framework of nonparallel hyperplanes classifier*, section 4.1: Figures 1
    and 2.

    Examples
    --------
    The paper's Figure 1, for one method:

    >>> from npsvm_cvx import NPSVMClassifier, load, make_cross_planes
    >>> X, y = make_cross_planes()
    >>> model = NPSVMClassifier(load("twsvm")(C2=2**-6)).fit(X, y)
    >>> display = DecisionRegionDisplay.from_estimator(model, X, y)
    >>> [len(line.get_paths()) for line in display.planes_]
    [1, 1]
    """

    def __init__(
        self,
        *,
        xx0: Array,
        xx1: Array,
        response: NDArray[np.intp],
        classes: NDArray[Any],
        scores: Array | None = None,
        plane_values: Array | None = None,
        scheme: str | None = None,
        X: Array | None = None,
        y: NDArray[np.intp] | None = None,
        xlabel: str | None = None,
        ylabel: str | None = None,
    ) -> None:
        self.xx0 = xx0
        self.xx1 = xx1
        self.response = response
        self.classes = classes
        self.scores = scores
        self.plane_values = plane_values
        self.scheme = scheme
        self.X = X
        self.y = y
        self.xlabel = xlabel
        self.ylabel = ylabel

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        grid_resolution: int = 200,
        eps: float | None = None,
        xlabel: str | None = None,
        ylabel: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw a fitted classifier.

        Parameters
        ----------
        estimator : classifier
            Fitted: one with planes (:class:`~npsvm_cvx.NPSVMClassifier`, :class:`~npsvm_cvx.GEPSVM`), a Pipeline or a
            parameter search that ends in one, or any other classifier, which then has regions only.
        X : (samples, 2) array-like
            Samples, which the view is made to show.
        y : (samples,) array-like, optional
            Their labels. Without them samples are not drawn.
        grid_resolution : int, default=200
            Grid points along each feature.
        eps : float, optional
            What the view shows beyond the samples on each side, in units of the features; by default a tenth of the
            range of each feature.
        xlabel, ylabel : str, optional
            By default the features' names, where X has any.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **kwargs
            Passed to :meth:`plot`.

        Returns
        -------
        DecisionRegionDisplay

        Raises
        ------
        NotFittedError
            The estimator is not fitted.
        ValueError
            It is no classifier of single labels, X has not two features, y has labels that it does not know, or a
            parameter is out of its range; the message names the argument.
        """
        check_is_fitted(estimator)
        classes = _classes(estimator)
        if not isinstance(grid_resolution, Integral) or grid_resolution < 2:
            raise NPSVMError(f"grid_resolution={grid_resolution!r} must be a whole number, 2 or more.")
        if eps is not None and not (isinstance(eps, Real) and 0 <= eps < np.inf):
            raise NPSVMError(f"eps={eps!r} must be a finite number, 0 or more.")
        samples = _two_features(X)
        codes = None if y is None else _codes(y, samples, classes)
        xx0, xx1 = view(samples, int(grid_resolution), eps)
        names = list(getattr(X, "columns", []))
        points: Any = np.column_stack([xx0.ravel(), xx1.ravel()])
        if names:
            points = pd.DataFrame(points, columns=names)
        chosen, scores, values, scheme = _evaluate(estimator, points, classes)
        labels = [str(name) for name in names] or [None, None]
        display = cls(
            xx0=xx0,
            xx1=xx1,
            response=chosen.reshape(xx0.shape),
            classes=classes,
            scores=None if scores is None else scores.reshape(*xx0.shape, -1),
            plane_values=None if values is None else values.reshape(*xx0.shape, -1),
            scheme=scheme,
            X=samples,
            y=codes,
            xlabel=labels[0] if xlabel is None else xlabel,
            ylabel=labels[1] if ylabel is None else ylabel,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        colors: Sequence[Any] | str | None = None,
        legend: bool = True,
        xlabel: str | None = None,
        ylabel: str | None = None,
        region_kwargs: dict[str, Any] | None = None,
        plane_kwargs: dict[str, Any] | None = None,
        scatter_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the regions, the samples on them, and the planes on top.

        Both features get the same scale where the view is at most twice as long one way as the other: distances to
        planes can then be compared by eye. ``display.ax_.set_aspect("auto")`` undoes it.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            A new figure by default.
        colors : list of colours or name of a colormap, optional
            One a class; by default ``PALETTE``, and more classes than it has share "viridis". Classes have markers
            of different shapes too.
        legend : bool, default=True
            Beside the axes where the figure has a layout engine, else inside.
        xlabel, ylabel : str, optional
            Instead of the stored ones.
        region_kwargs, plane_kwargs, scatter_kwargs : dict, optional
            Passed to ``Axes.contourf`` for regions, ``Axes.contour`` for planes, and ``Axes.scatter``.

        Returns
        -------
        DecisionRegionDisplay
        """
        from matplotlib import patheffects

        inks = _colours(colors, len(self.classes))
        width, height = np.ptp(self.xx0), np.ptp(self.xx1)
        equal = max(width, height) <= 2 * min(width, height)
        if ax is None:
            from matplotlib import pyplot

            size = (6.4, 4.6 * height / width + 0.4) if equal else None  # no blank bands above and below the axes
            _, ax = pyplot.subplots(layout="compressed", figsize=size)
        self.ax_, self.figure_ = ax, ax.figure
        self.regions_ = self._draw_regions(inks, region_kwargs or {})
        self.planes_: list[Any] = []
        if self.plane_values is not None:
            outline = [patheffects.withStroke(linewidth=4.0, foreground="white", alpha=0.8)]
            style = {"linewidths": 2.0, "path_effects": outline, **(plane_kwargs or {})}
            effects = style.pop("path_effects")
            for k, ink in enumerate(inks):
                self.planes_.append(self._draw_plane(k, _INK * ink, style))
                if self.planes_[-1] is not None:
                    self.planes_[-1].set_path_effects(effects)
        self.samples_: list[Any] = []
        if self.X is not None and self.y is not None:
            for k, ink in enumerate(inks):
                style = {"s": 22, "linewidths": 0.6, "edgecolors": "white", "zorder": 2, **(scatter_kwargs or {})}
                style = {"color": [ink], "marker": _MARKERS[k % len(_MARKERS)], **style}
                own = self.X[self.y == k]
                self.samples_.append(ax.scatter(own[:, 0], own[:, 1], **style))
        ax.set_xlim(self.xx0[0, 0], self.xx0[0, -1])
        ax.set_ylim(self.xx1[0, 0], self.xx1[-1, 0])
        ax.set_aspect("equal" if equal else "auto")
        for name, given, stored in (("xlabel", xlabel, self.xlabel), ("ylabel", ylabel, self.ylabel)):
            if given is not None or not getattr(ax, f"get_{name}")():
                getattr(ax, f"set_{name}")(stored if given is None else given)
        self.legend_ = self._draw_legend(inks) if legend else None
        return self

    # --- parts of plot -----------------------------------------------------------------------------------

    def _draw_regions(self, inks: Array, options: dict[str, Any]) -> list[Any]:
        """Draw every region, opaque and the last class first, so that none shows through a rounded corner."""
        drawn: list[Any] = []
        tints = _TINT * inks + 1 - _TINT
        if "alpha" not in options:  # grid points as blocks: what shows where three regions leave a gap between them
            self.ax_.pcolormesh(self.xx0, self.xx1, tints[self.response], shading="nearest", rasterized=True, zorder=0)
        for k in reversed(range(len(self.classes))):
            edge = _edge(self.response == k, self.scores, k)
            if edge.max() <= 0:
                drawn.insert(0, None)
                continue
            style = {"colors": [tints[k]], "zorder": 0.5, **options}
            drawn.insert(0, self.ax_.contourf(self.xx0, self.xx1, edge, levels=[0.0, np.inf], **style))
        return drawn

    def _draw_plane(self, k: int, ink: Array, options: dict[str, Any]) -> Any:
        assert self.plane_values is not None
        values = self.plane_values[:, :, k]
        if self._missing(k):
            return None
        return self.ax_.contour(
            self.xx0, self.xx1, values, levels=[0.0], **{"colors": [ink], "linestyles": "solid", "zorder": 3, **options}
        )

    def _missing(self, k: int) -> str:
        """Return why class k has no line in view, or nothing."""
        assert self.plane_values is not None
        values = self.plane_values[:, :, k]
        low, high = values.min(), values.max()
        if high - low <= _FLAT * max(abs(low), abs(high)):
            return "w = 0: no plane"
        return "" if low <= 0 <= high else "plane not in view"

    def _draw_legend(self, inks: Array) -> Any:
        from matplotlib.legend_handler import HandlerTuple
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        handles, labels = [], []
        for k, (label, ink) in enumerate(zip(self.classes, inks, strict=True)):
            parts: list[Any] = [Patch(facecolor=_TINT * ink + 1 - _TINT)]
            if self.planes_ and self.planes_[k] is not None:
                parts.append(Line2D([], [], color=_INK * ink, linewidth=2.0))
            if self.samples_:
                marker = _MARKERS[k % len(_MARKERS)]
                parts.append(Line2D([], [], linestyle="", marker=marker, color=ink, markeredgecolor="white"))
            missing = self._missing(k) if self.planes_ else ""
            handles.append(tuple(parts))
            labels.append(f"{label} ({missing})" if missing else str(label))
        outside = self.figure_.get_layout_engine() is not None
        place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)} if outside else {"loc": "best"}
        found = self.ax_.legend(
            handles,
            labels,
            title=f"{self.scheme} plane decides" if self.scheme and self.planes_ else None,
            handler_map={tuple: HandlerTuple(ndivide=1, pad=0.0)},
            alignment="left",
            frameon=not outside,
            handlelength=2.4,
            fontsize="small",
            title_fontsize="small",
            **place,
        )
        found.set_zorder(4)
        return found


def view(samples: Array, grid_resolution: int, eps: float | None = None) -> tuple[Array, Array]:
    """Return the grid that shows samples of two features, and ``eps`` or a tenth of their range on each side."""
    low, high = samples.min(axis=0), samples.max(axis=0)
    width = high - low
    margin = np.where(width > 0, 0.1 * width, 1.0) if eps is None else float(eps)
    ticks = np.linspace(low - margin, high + margin, grid_resolution)
    xx0, xx1 = np.meshgrid(ticks[:, 0], ticks[:, 1])
    return xx0, xx1


# --- what is asked of the estimator ------------------------------------------------------------------------


def _classes(estimator: Any) -> NDArray[Any]:
    if not is_classifier(estimator) or not hasattr(estimator, "classes_"):
        raise NPSVMError(f"estimator must be a classifier; found {type(estimator).__name__}.")
    if isinstance(estimator.classes_, list):
        raise NPSVMError(f"estimator must predict one label a sample; {type(estimator).__name__} predicts several.")
    return np.asarray(estimator.classes_)


def _two_features(X: Any) -> Array:
    dense = X.toarray() if sparse.issparse(X) else X
    samples = np.asarray(check_array(dense, dtype=np.float64, input_name="X"))
    if samples.shape[1] != 2:
        raise NPSVMError(
            f"X must have two features to be drawn; found {samples.shape[1]}. Fit on two columns, and give those."
        )
    return samples


def _codes(y: ArrayLike, samples: Array, classes: NDArray[Any]) -> NDArray[np.intp]:
    labels = column_or_1d(y)
    check_consistent_length(samples, labels)
    codes = np.asarray(pd.Index(classes).get_indexer(pd.Index(labels)), dtype=np.intp)
    if (codes < 0).any():
        stranger, known = str(labels[codes < 0][0]), ", ".join(map(str, classes))
        raise NPSVMError(f"y: the estimator knows no class {stranger!r}; its classes are {known}.")
    return codes


def _evaluate(
    estimator: Any, points: Any, classes: NDArray[Any]
) -> tuple[NDArray[np.intp], Array | None, Array | None, str | None]:
    """Return classes as indices, scores, plane values and the scheme at points, a block at a time."""
    chosen, scores, values, scheme = [], [], [], None
    for block in gen_batches(len(points), _BLOCK):
        part = points.iloc[block] if isinstance(points, pd.DataFrame) else points[block]
        chosen.append(np.asarray(pd.Index(classes).get_indexer(pd.Index(estimator.predict(part))), dtype=np.intp))
        scores.append(_scores(estimator, part, len(classes)))
        model, rows = _last_step(estimator, part)
        if isinstance(model, PlaneClassifier) and not named(model.kernel, "precomputed"):
            values.append(model.plane_values(rows))
            scheme = model.scheme_
    smooth = None if scores[0] is None else np.concatenate([part for part in scores if part is not None])
    return np.concatenate(chosen), smooth, np.concatenate(values) if values else None, scheme


def _scores(estimator: Any, points: Any, count: int) -> Array | None:
    for method in ("decision_function", "predict_proba"):
        if hasattr(estimator, method):
            found = np.asarray(getattr(estimator, method)(points), dtype=float)
            found = np.column_stack([-found, found]) if found.ndim == 1 else found
            return found if found.shape[1] == count else None  # one-vs-one scores: a column a pair
    return None


def _last_step(estimator: Any, points: Any) -> tuple[Any, Any]:
    """Return the classifier inside pipelines and searches, and the points as it sees them."""
    while True:
        if isinstance(estimator, Pipeline):
            if len(estimator) > 1:
                points = estimator[:-1].transform(points)
            estimator = estimator[-1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator, points


# --- what is drawn -----------------------------------------------------------------------------------------


def _edge(inside: NDArray[np.bool_], scores: Array | None, k: int) -> Array:
    """Return a field that is positive exactly at the grid points of class k, and zero where its score is overtaken.

    What a classifier predicts decides the sign, also where its scores tie or say otherwise.
    """
    if scores is None:
        return np.where(inside, 1.0, -1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        lead = np.nan_to_num(scores[:, :, k] - np.delete(scores, k, axis=2).max(axis=2), posinf=1e300, neginf=-1e300)
        lead = np.clip(lead, -1e300, 1e300)
    least = 1e-9 * (np.median(np.abs(lead)) or 1.0)
    return np.where(inside, np.maximum(lead, least), np.minimum(lead, -least))


def _colours(asked: Sequence[Any] | str | None, count: int) -> Array:
    """Return a colour a class, as red, green and blue."""
    import matplotlib as mpl
    from matplotlib.colors import is_color_like, to_rgb

    if asked is None:
        asked = list(PALETTE[:count]) if count <= len(PALETTE) else "viridis"
    if isinstance(asked, str):
        if asked not in mpl.colormaps:
            raise NPSVMError(f"colors={asked!r} is no colormap of matplotlib.")
        return np.asarray(mpl.colormaps[asked](np.linspace(0.0, 1.0, count))[:, :3])
    if len(asked) != count or not all(is_color_like(each) for each in asked):
        raise NPSVMError(f"colors={asked!r} must hold {count} colours that matplotlib knows, one a class.")
    return np.array([to_rgb(each) for each in asked])
