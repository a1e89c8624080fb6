"""The methods a comparison has beside the framework: each against a computation of its own, and GEPSVM's contract."""

import cvxpy as cp
import numpy as np
import oracle
import pytest
import scipy.linalg
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator

from npsvm_cvx import NPSVMClassifier, load
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
    with pytest.warns(ZeroNormalWarning, match="the planes of classes 0, 1 have w = 0.*another kernel"):
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


# --- the other methods the paper compares with ---------------------------------------------------------


def three(seed=1, n=45):
    X, y = make_blobs(n, 3, centers=3, cluster_std=2.0, random_state=seed)
    new = np.random.default_rng(seed).normal(0.0, 6.0, size=(60, 3))
    return X, y, np.r_[X, new]


def planes_of(name, p, rows, y, nearest):
    """Return the plane of each class by the oracle, which reads no formulation: S and R typed out."""
    found = []
    for k in np.unique(y):
        S, R = (rows[y == k], -rows[y != k]) if nearest else (rows[y != k], rows[y == k])
        found.append(oracle.optimum(name, p, S, R).plane)
    return np.array(found)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_mbsvm_decides_for_the_farthest_of_planes_typed_out(kernel):
    X, y, new = three()
    p = {"C2": 0.5, "eps": 1e-3}
    model = NPSVMClassifier(load("mbsvm")(**p), kernel=kernel, gamma=0.05, tol=1e-10).fit(X, y)
    rows, at = (X, new) if kernel == "linear" else (rbf_kernel(X, gamma=0.05), rbf_kernel(new, X, gamma=0.05))
    rows, at = np.column_stack([rows, np.ones(len(X))]), np.column_stack([at, np.ones(len(new))])
    distance = np.abs(at @ planes_of("mbsvm", p, rows, y, nearest=False).T)
    assert model.decision_function(new) == pytest.approx(distance, rel=1e-3, abs=1e-4)
    assert (model.predict(new) == distance.argmax(axis=1)).all()


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_twsvm_decides_for_the_nearest_of_planes_typed_out(kernel, classes):
    X, y, new = three()
    X, y = X[y < classes], y[y < classes]
    p = {"C2": 0.05, "eps": 1e-3}
    model = NPSVMClassifier(load("twsvm")(**p), kernel=kernel, gamma=0.05, tol=1e-10).fit(X, y)
    K = rbf_kernel(X, gamma=0.05)
    rows, at = (X, new) if kernel == "linear" else (K, rbf_kernel(new, X, gamma=0.05))
    rows, at = np.column_stack([rows, np.ones(len(X))]), np.column_stack([at, np.ones(len(new))])
    z = planes_of("twsvm", p, rows, y, nearest=True)
    w = z[:, :-1]
    norm = np.sqrt(np.einsum("ki,ki->k", w, w if kernel == "linear" else w @ K))
    distance = np.abs(at @ z.T) / norm
    clear = np.sort(distance, axis=1)[:, 1] - np.sort(distance, axis=1)[:, 0] > 1e-2
    assert clear.mean() > 0.7
    assert (model.predict(new) == distance.argmin(axis=1))[clear].all()


def svm_values(K, at, signs, C):
    """Return an SVM's decision values by its dual as CVXPY solves it: max e'a - a'YKYa/2, 0 <= a <= C, y'a = 0."""
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    a = cp.Variable(len(signs))
    fit = cp.sum(a) - cp.sum_squares(root.T @ cp.multiply(signs, a)) / 2
    equation = signs @ a == 0
    cp.Problem(cp.Maximize(fit), [a >= 0, a <= C, equation]).solve(solver="CLARABEL", tol_gap_rel=1e-12)
    alpha = np.clip(a.value, 0, C)
    free = (alpha > 1e-5 * C) & (alpha < (1 - 1e-5) * C)
    b = np.mean(signs[free] - K[free] @ (signs * alpha))
    return at @ (signs * alpha) + b


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_svm_of_the_comparison_one_against_one_and_against_the_rest(kernel):
    X, y, new = three()
    gram = (lambda A, B: A @ B.T) if kernel == "linear" else (lambda A, B: rbf_kernel(A, B, gamma=0.05))
    make = SVC(C=0.5, kernel=kernel, gamma=0.05, tol=1e-8)
    rest = OneVsRestClassifier(make).fit(X, y)
    scores = np.column_stack([svm_values(gram(X, X), gram(new, X), np.where(y == k, 1.0, -1.0), 0.5) for k in range(3)])
    assert rest.decision_function(new) == pytest.approx(scores, abs=1e-3)
    assert (rest.predict(new) == scores.argmax(axis=1)).mean() > 0.98  # ties apart
    votes = np.zeros((len(new), 3))
    for i, j in ((0, 1), (0, 2), (1, 2)):
        two = (y == i) | (y == j)
        values = svm_values(gram(X[two], X[two]), gram(new, X[two]), np.where(y[two] == i, 1.0, -1.0), 0.5)
        votes[np.arange(len(new)), np.where(values > 0, i, j)] += 1
    clear = votes.max(axis=1) == 2
    assert clear.mean() > 0.9
    assert (make.fit(X, y).predict(new) == votes.argmax(axis=1))[clear].mean() > 0.98
