"""GEPSVM finds the planes its quotient says, and keeps scikit-learn's contract."""

import numpy as np
import pytest
import scipy.linalg
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.multiclass import OneVsOneClassifier
from sklearn.utils.estimator_checks import check_estimator

from npsvm_cvx.baselines import GEPSVM
from npsvm_cvx.planes import ZeroNormalWarning


def sample(seed=0, n=40):
    return make_blobs(n, 3, centers=2, cluster_std=3.0, random_state=seed)


def split(X, y):
    rows = np.column_stack([X, np.ones(len(X))])
    return rows[y == 0], rows[y == 1]


def quotient(z, A, B, delta):
    return (np.sum((A @ z) ** 2) + delta * z @ z) / np.sum((B @ z) ** 2)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_check_estimator(kernel):
    results = check_estimator(GEPSVM(kernel=kernel), on_skip=None)
    skipped = {r["check_name"] for r in results if r["status"] != "passed"}
    # 63 checks in scikit-learn 1.9 (61 for pairwise input); array API input needs an opt-in by SciPy
    assert len(results) - len(skipped) >= 55
    assert skipped <= {"check_array_api_input"}


def test_crossing_lines_have_planes_in_closed_form():
    # A on the line x2 = 0, B on x1 = 0, both centred: A'A = diag(2, 0, 2) and B'B = diag(0, 2, 2) in (w1, w2, b).
    # The quotient's stationary points are the axes, with delta / 2 at (0, 1, 0) and (2 + delta) / 2 at (0, 0, 1)
    model = GEPSVM(delta=0.1).fit([[1, 0], [-1, 0], [0, 1], [0, -1]], [0, 0, 1, 1])
    assert model.planes_ == pytest.approx(np.array([[0, 1, 0], [1, 0, 0]]), abs=1e-12)
    assert model.eigenvalues_ == pytest.approx([0.05, 0.05])
    assert model.predict([[3, 0.2], [0.2, -3], [1, 1]]).tolist() == [
        0,
        1,
        0,
    ]  # (1, 1) ties
    assert model.decision_function([[3.0, 1.0]]) == pytest.approx([1.0 - 3.0])


def test_an_oblique_line_is_found_as_delta_vanishes():
    # A lies on x1 + 2 x2 = 3 exactly, so its least quotient is 0 there; any delta > 0 tilts it by O(delta)
    A, B = [[1, 1], [3, 0], [-1, 2], [5, -1]], [[0, 0], [4, 4], [1, -3]]
    model = GEPSVM(delta=1e-10).fit(A + B, ["on"] * 4 + ["off"] * 3)
    line = model.planes_[model.classes_.tolist().index("on")]
    assert line / line[0] == pytest.approx([1, 2, -3], abs=1e-7)


@pytest.mark.parametrize("delta", [1e-6, 1e-2, 10.0])
def test_planes_are_the_generalised_eigenvectors_and_no_plane_does_better(delta):
    X, y = sample()
    first, second = split(X, y)
    model, rng = GEPSVM(delta=delta).fit(X, y), np.random.default_rng(0)
    for z, value, (A, B) in zip(model.planes_, model.eigenvalues_, [(first, second), (second, first)], strict=True):
        assert quotient(z, A, B, delta) == pytest.approx(value, rel=1e-9)
        # SciPy on the squared matrices, as the paper writes the problem
        values, vectors = scipy.linalg.eigh(A.T @ A + delta * np.eye(4), B.T @ B)
        assert value == pytest.approx(values[0], rel=1e-6)
        assert abs(vectors[:, 0] @ z) / np.linalg.norm(vectors[:, 0]) == pytest.approx(1)
        for size in (1e-3, 1e-1, 10.0):
            for step in size * rng.normal(size=(50, 4)):
                assert quotient(z + step, A, B, delta) >= value * (1 - 1e-12)


def test_the_kernel_planes_minimise_the_quotient_of_kernel_rows():
    X, y = sample(n=24)
    model = GEPSVM(delta=1e-2, kernel="rbf", gamma=0.1).fit(X, y)
    A, B = split(rbf_kernel(X, gamma=0.1), y)
    values = scipy.linalg.eigh(B.T @ B, A.T @ A + 1e-2 * np.eye(25), eigvals_only=True)  # B'B is singular: inverted
    assert model.eigenvalues_[0] == pytest.approx(1 / values[-1], rel=1e-9)
    assert quotient(model.planes_[0], A, B, 1e-2) == pytest.approx(1 / values[-1], rel=1e-9)
    K, w, b = rbf_kernel(X, gamma=0.1), model.planes_[:, :-1], model.planes_[:, -1]
    distance = np.abs(K @ w.T + b) / np.sqrt(np.diag(w @ K @ w.T))
    assert model.predict(X).tolist() == distance.argmin(axis=1).tolist()
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_whole_weights_are_repeated_samples(kernel):
    X, y = sample(n=24)
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    index = np.repeat(np.arange(len(X)), weight)
    weighted = GEPSVM(kernel=kernel).fit(X, y, sample_weight=weight)
    repeated = GEPSVM(kernel=kernel).fit(X[index], y[index])
    assert weighted.decision_function(X) == pytest.approx(repeated.decision_function(X), rel=1e-6, abs=1e-8)
    assert weighted.eigenvalues_ == pytest.approx(repeated.eigenvalues_, rel=1e-7)


def test_swapping_the_labels_swaps_the_planes():
    X, y = sample()
    one, other = GEPSVM().fit(X, y), GEPSVM().fit(X, 1 - y)
    assert one.planes_ == pytest.approx(other.planes_[::-1], abs=1e-10)
    assert one.decision_function(X) == pytest.approx(-other.decision_function(X), abs=1e-10)


def test_more_features_than_samples_are_fine():
    X = np.random.default_rng(0).normal(size=(10, 30))
    y = np.arange(10) % 2
    assert GEPSVM().fit(X, y).score(X, y) == 1


def test_a_plane_without_normal_warns():
    # every feature is zero, so only b is left
    with pytest.warns(ZeroNormalWarning, match="the plane of class 0, 1 has w = 0"):
        model = GEPSVM().fit([[0.0], [0.0], [0.0]], [0, 1, 1])
    assert model.predict([[3.0]]).tolist() == [0]


@pytest.mark.parametrize(
    ("parameters", "labels", "says"),
    [
        ({"delta": 0.0}, [0, 1, 1], "'delta' parameter of GEPSVM"),
        ({"delta": np.nan}, [0, 1, 1], "'delta' parameter of GEPSVM"),
        ({"kernel": "rfb"}, [0, 1, 1], "did you mean 'rbf'"),
        ({}, [0, 0, 0], "at least 2 classes"),
        ({}, [0, 1, 2], "Only binary classification is supported.*multiclass, 3 classes; use OneVsRest"),
    ],
)
def test_bad_input_is_named(parameters, labels, says):
    with pytest.raises(ValueError, match=says):
        GEPSVM(**parameters).fit([[0.0], [1.0], [2.0]], labels)


def test_more_classes_by_one_against_one():
    X, y = load_iris(return_X_y=True)
    model = OneVsOneClassifier(GEPSVM(kernel="rbf", delta=1e-3))
    assert clone(model).fit(X, y).score(X, y) > 0.9
