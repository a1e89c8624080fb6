"""Pictures: lines where theory puts them, regions where the classifier predicts, and one sentence for each mistake."""

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.path import Path
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from npsvm_cvx import GEPSVM, DecisionRegionDisplay, NPSVMClassifier, load, make_cross_planes, make_three_lines
from npsvm_cvx.planes import ZeroNormalWarning
from npsvm_cvx.plotting import PALETTE


@pytest.fixture(autouse=True, scope="module")
def _agg():
    with mpl.rc_context({"backend": "agg"}):
        from matplotlib import pyplot

        yield
        pyplot.close("all")


def draw(model, X, y=None, **options):
    """Draw on axes of its own figure, which no pyplot keeps."""
    options.setdefault("ax", Figure(layout="constrained").subplots())
    return DecisionRegionDisplay.from_estimator(model, X, y, **options)


def vertices(line):
    return np.vstack([path.vertices for path in line.get_paths()])


def legend(display):
    return [text.get_text() for text in display.legend_.get_texts()]


def axis_cross(n=21):
    """Return two classes exactly on the axes: their planes are x2 = 0 and x1 = 0."""
    along, zero = np.linspace(-2, 2, n), np.zeros(n)
    X = np.vstack([np.column_stack([along, zero]), np.column_stack([zero, along])])
    return X, np.repeat(["across", "up"], n)


class LabelsAlone(ClassifierMixin, BaseEstimator):
    """A classifier without scores."""

    def fit(self, X, y):
        self.model_ = KNeighborsClassifier(1).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)


# --- lines ------------------------------------------------------------------------------------------------


def test_gepsvm_has_the_axes_as_its_planes():
    # by symmetry the smallest ratio |A z|^2 / |B z|^2 of points on an axis is attained by that axis
    X, y = axis_cross()
    display = draw(GEPSVM(delta=1e-12).fit(X, y), X, y)
    across, up = (vertices(line) for line in display.planes_)
    assert np.abs(across[:, 1]).max() < 1e-9
    assert np.abs(up[:, 0]).max() < 1e-9
    for along in (across[:, 0], up[:, 1]):  # from edge to edge: the range -2 .. 2 and a tenth of it beyond
        assert (along.min(), along.max()) == pytest.approx((-2.4, 2.4))


@pytest.mark.parametrize("model", [NPSVMClassifier(load("twsvm")(C2=2**-6)), GEPSVM()])
def test_a_linear_plane_is_drawn_where_its_equation_says(model):
    X, y = make_cross_planes()
    display = draw(model.fit(X, y), X, y)
    for line, w, b in zip(display.planes_, model.coef_, model.intercept_, strict=True):
        # linear interpolation of a linear function: exact but for rounding
        assert np.abs(vertices(line) @ w + b).max() < 1e-12 * np.abs(w).sum()


def test_planes_come_back_through_a_pipeline():
    # noise-free lines stay lines under any change of units, and a plane through all its class has ratio zero
    X, y = make_cross_planes(noise=0.0)
    units, origin = np.array([1000.0, 0.01]), np.array([5.0, -3.0])
    scaled = X * units + origin
    model = make_pipeline(StandardScaler(), GEPSVM(delta=1e-13)).fit(scaled, y)
    display = draw(model, scaled, y)
    assert display.ax_.get_aspect() == "auto"
    for line, (slope, intercept) in zip(display.planes_, [(0.8, 0.1), (-0.6, 0.3)], strict=True):
        x1, x2 = ((vertices(line) - origin) / units).T
        assert np.abs(x2 - slope * x1 - intercept).max() < 1e-6


def test_a_kernel_plane_is_the_zero_set_of_its_values():
    X, y = make_moons(80, noise=0.1, random_state=0)
    model = NPSVMClassifier("twsvm", kernel="rbf").fit(X, y)
    display = draw(model, X, y, grid_resolution=300)
    for k, line in enumerate(display.planes_):
        reach = np.abs(display.plane_values[:, :, k]).max()
        # between grid points the curve is a chord: its error is of second order in the step, 1/300
        assert np.abs(model.plane_values(vertices(line))[:, k]).max() < 1e-3 * reach


def test_a_search_and_a_pipeline_in_it_show_their_planes():
    X, y = make_cross_planes()
    search = GridSearchCV(make_pipeline(StandardScaler(), GEPSVM()), {"gepsvm__delta": [1e-4, 1e-2]}).fit(X, y)
    inside = draw(search.best_estimator_, X, y)
    assert np.array_equal(draw(search, X, y).plane_values, inside.plane_values)


def test_a_plane_without_a_normal_has_no_line_and_the_legend_says_so():
    X, y = make_three_lines()
    with pytest.warns(ZeroNormalWarning):
        model = NPSVMClassifier("twsvm").fit(X, y)
    assert np.abs(model.coef_[1]).max() < 1e-9  # what the warning is about
    display = draw(model, X, y)
    assert display.planes_[1] is None
    assert legend(display)[1] == "2 (w = 0: no plane)"


def test_a_plane_out_of_view_is_said_to_be():
    X, y = axis_cross()
    model = GEPSVM().fit(X, y)
    display = draw(model, X[y == "up"] + [9.0, 9.0], None)  # samples far from both planes
    assert display.planes_ == [None, None]
    assert legend(display) == ["across (plane not in view)", "up (plane not in view)"]


def test_others_have_regions_only():
    X, y = make_three_lines(60)
    for model in (SVC(), OneVsRestClassifier(GEPSVM())):
        display = draw(model.fit(X, y), X, y)
        assert display.planes_ == []
        assert display.legend_.get_title().get_text() == ""


# --- regions ----------------------------------------------------------------------------------------------

MODELS = {
    "farthest": NPSVMClassifier(load("hnpsvm")(C1=2**-8, C2=2**-6)),
    "nearest": NPSVMClassifier(load("twsvm")(C2=2**-6)),
    "kernel": NPSVMClassifier(kernel="rbf"),
    "pipeline": make_pipeline(StandardScaler(), NPSVMClassifier("twsvm", kernel="rbf")),
    "votes, whose scores may say otherwise": SVC(),
    "scores of pairs": SVC(decision_function_shape="ovo"),
    "probabilities": KNeighborsClassifier(),
    "labels alone": LabelsAlone(),
}


@pytest.mark.parametrize("name", MODELS)
def test_regions_are_what_predict_says(name):
    X, y = make_three_lines(90)
    y = np.array(["c", "a", "b"])[y - 1]
    model = MODELS[name].fit(X, y)
    display = draw(model, X, y, grid_resolution=40)
    grid = np.column_stack([display.xx0.ravel(), display.xx1.ravel()])
    predicted = model.predict(grid)
    assert np.array_equal(display.classes[display.response].ravel(), predicted)
    inner = (np.abs(grid - grid.mean(axis=0)) < 0.99 * np.ptp(grid, axis=0) / 2).all(axis=1)
    for label, region in zip(display.classes, display.regions_, strict=True):
        covered = np.zeros(len(grid), dtype=bool)
        if region is not None:
            for ring in region.get_paths()[0].to_polygons():  # a ring within a ring is a hole
                covered ^= Path(ring).contains_points(grid)
        # a class drawn over another hides a rounded corner of it, never the grid point there
        assert (covered[inner] == (predicted == label)[inner]).all()


def test_the_edge_of_a_region_lies_between_grid_points_where_scores_tie():
    # planes x2 = 0 and x1 = 0 are equally near on the diagonals; a step of the grid is 4.8 / 49
    X, y = axis_cross()
    display = draw(GEPSVM(delta=1e-12).fit(X, y), X, y, grid_resolution=50)
    edge = np.vstack([path.vertices for path in display.regions_[0].get_paths()])
    inside = edge[(np.abs(edge) < 2.39).all(axis=1)]
    assert len(inside) > 50
    assert np.abs(np.abs(inside[:, 0]) - np.abs(inside[:, 1])).max() < 1e-6


def test_a_tie_everywhere_is_the_first_class_everywhere():
    X, y = axis_cross()
    model = GEPSVM().fit(X, y)
    model.planes_ = np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    model._norms = np.ones(2)
    display = draw(model, X, y)
    assert (display.response == 0).all()
    assert display.regions_[0] is not None
    assert display.regions_[1] is None


# --- conventions ------------------------------------------------------------------------------------------


def test_it_draws_where_it_is_told_and_returns_itself():
    X, y = make_cross_planes(40)
    axes = Figure().subplots(1, 2)
    display = draw(GEPSVM().fit(X, y), X, y, ax=axes[1])
    assert display.ax_ is axes[1]
    assert display.figure_ is axes[1].figure
    assert not axes[0].collections
    assert display.plot(axes[0], legend=False) is display
    assert display.legend_ is None
    assert [samples.get_offsets().shape for samples in display.samples_] == [(20, 2), (20, 2)]


def test_without_axes_there_is_a_figure_of_pyplots():
    from matplotlib import pyplot

    X, y = make_cross_planes(40)
    before, settings = set(pyplot.get_fignums()), dict(mpl.rcParams)
    display = DecisionRegionDisplay.from_estimator(GEPSVM().fit(X, y), X, y)
    assert set(pyplot.get_fignums()) - before == {display.figure_.number}
    assert dict(mpl.rcParams) == settings
    display.figure_.canvas.draw()
    assert display.ax_.get_aspect() == 1.0
    pyplot.close(display.figure_)


def test_axes_of_ones_own_need_no_pyplot():
    code = (
        "import sys; from matplotlib.figure import Figure; import npsvm_cvx as n; X, y = n.make_cross_planes(40)\n"
        "n.DecisionRegionDisplay.from_estimator(n.GEPSVM().fit(X, y), X, y, ax=Figure().subplots())\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert run.stdout.strip() == "False"


def test_names_of_a_frame_are_labels_and_reach_the_estimator():
    X, y = make_cross_planes(40)
    frame = pd.DataFrame(X, columns=["petal", "sepal"], index=range(100, 140))
    display = draw(make_pipeline(StandardScaler(), GEPSVM()).fit(frame, y), frame, pd.Series(y, index=frame.index))
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("petal", "sepal")
    assert draw(GEPSVM().fit(frame, y), frame, y, xlabel="other").ax_.get_xlabel() == "other"


def test_the_view_is_the_samples_and_a_margin():
    X, y = axis_cross()
    model = GEPSVM().fit(X, y)
    assert draw(model, X, y, eps=1.0).ax_.get_xlim() == (-3.0, 3.0)
    flat = draw(model, [[0.0, 7.0], [1.0, 7.0]])  # a feature of no range is shown one unit each way
    assert flat.ax_.get_ylim() == (6.0, 8.0)
    assert flat.samples_ == []


def test_there_are_colours_for_any_number_of_classes():
    rng = np.random.default_rng(0)
    for count in (2, 10, 25):
        y = np.repeat(np.arange(count), 3)
        X = np.column_stack([y, y**2]) + rng.normal(size=(len(y), 2)) / 9
        display = draw(KNeighborsClassifier(1).fit(X, y), X, y, grid_resolution=20)
        used = [(tuple(s.get_facecolor()[0]), s.get_paths()[0].vertices.tobytes()) for s in display.samples_]
        assert len(set(used)) == count
        if count <= 10:
            assert [mpl.colors.to_hex(colour) for colour, _ in used] == list(PALETTE[:count])


def test_styles_are_passed_on():
    X, y = make_cross_planes(40)
    display = draw(
        GEPSVM().fit(X, y), X, y, colors=["black", "C1"],
        plane_kwargs={"linestyles": "dashed"}, scatter_kwargs={"s": 50}, region_kwargs={"alpha": 0.5},
    )  # fmt: skip
    assert display.samples_[0].get_sizes().tolist() == [50]
    assert display.regions_[0].get_alpha() == 0.5
    assert display.planes_[0].get_linestyle()[0][1] is not None


# --- bad input --------------------------------------------------------------------------------------------

CROSS, LABELS = make_cross_planes(40)
FITTED = LogisticRegression().fit(CROSS, LABELS)


@pytest.mark.parametrize(
    ("estimator", "X", "y", "options", "message"),
    [
        (FITTED, np.ones((4, 3)), None, {}, "^X must have two features to be drawn; found 3"),
        (FITTED, [[0.0, np.nan]], None, {}, "Input X contains NaN"),
        (FITTED, CROSS, LABELS + 1, {}, "^y: the estimator knows no class '3'; its classes are 1, 2"),
        (FITTED, CROSS, LABELS[:5], {}, "inconsistent numbers of samples"),
        (FITTED, CROSS, LABELS, {"eps": -1}, "^eps=-1 must be"),
        (FITTED, CROSS, LABELS, {"grid_resolution": 1.5}, "^grid_resolution=1.5 must be"),
        (FITTED, CROSS, LABELS, {"colors": ["red"]}, "must hold 2 colours"),
        (FITTED, CROSS, LABELS, {"colors": "viridi"}, "is no colormap"),
        (LinearRegression().fit(CROSS, LABELS), CROSS, LABELS, {}, "must be a classifier; found LinearRegression"),
        (KNeighborsClassifier().fit(CROSS, np.column_stack([LABELS, LABELS])), CROSS, LABELS, {}, "predicts several"),
    ],
)  # fmt: skip
def test_a_mistake_is_named(estimator, X, y, options, message):
    with pytest.raises(ValueError, match=message):
        draw(estimator, X, y, **options)


@pytest.mark.parametrize("model", [NPSVMClassifier(), GEPSVM(), make_pipeline(StandardScaler(), SVC())])
def test_unfitted_is_not_fitted(model):
    with pytest.raises(NotFittedError):
        draw(model, CROSS, LABELS)
