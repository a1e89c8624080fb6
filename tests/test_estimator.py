"""NPSVMClassifier keeps scikit-learn's contract, and its planes, weights and decisions are the right ones."""

import pickle
import warnings
from itertools import product

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_blobs
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_score
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from npsvm_cvx import Framework, Loss, available, load, plane_classifier
from npsvm_cvx.compile import compile, disagreement
from npsvm_cvx.errors import SolverError
from npsvm_cvx.estimator import NPSVMClassifier
from npsvm_cvx.planes import ZeroNormalWarning, decide
from npsvm_cvx.reading import NotCompilable

SCHEMES = ("farthest", "nearest")
LINEAR_PROGRAM = "l1_ls_twsvm"  # planes need not be unique, and the solver is the slow one


def sample(classes=3, seed=0, n=36, spread=2.0):
    return make_blobs(n, 3, centers=classes, cluster_std=spread, random_state=seed)


class Logistic(Loss):
    """log(1 + exp(-t)), without a conjugate: there is no dual to read."""

    def value(self, t):
        return cp.logistic(-t)


# what scikit-learn 1.9 runs (63, 62 and 60), and 1.7 at the least; array API input needs an opt-in by SciPy
CHECKS = {"linear": 56, "rbf": 55, "precomputed": 54}


# --- scikit-learn's contract ---------------------------------------------------------------------------


def everything(estimator):
    """Run every check; a failure raises.  Return the names of those that ran and of those skipped."""
    results = check_estimator(estimator, on_skip=None)
    passed = [r["check_name"] for r in results if r["status"] == "passed"]
    skipped = [r["check_name"] for r in results if r["status"] == "skipped"]
    assert len(results) == len(passed) + len(skipped)
    return passed, skipped


# the data of some checks are noise with many classes, where w = 0 is the optimum: the warning is right
@pytest.mark.filterwarnings("ignore::npsvm_cvx.planes.ZeroNormalWarning")
@pytest.mark.parametrize(
    ("name", "scheme", "kernel"),
    [
        *product(available(), SCHEMES, ["linear", "rbf"]),
        *product(["hnpsvm", "ls_twsvm"], SCHEMES, ["precomputed"]),
    ],
)
def test_check_estimator(name, scheme, kernel):
    passed, skipped = everything(NPSVMClassifier(name, scheme=scheme, kernel=kernel))
    assert len(passed) >= CHECKS[kernel]
    assert set(skipped) <= {"check_array_api_input"}


def test_a_loss_without_a_conjugate_passes_too_where_general_solvers_can():
    X, y = sample(2)
    model = NPSVMClassifier(Logistic()).fit(X, y)
    assert [c["solver"] for c in model.certificate_] == ["clarabel", "clarabel"]
    assert all(c["converged"] for c in model.certificate_)
    # the margin's multiplier at the optimum is -C2 L'(t) = 1 / (1 + exp(t))
    own = y == 1
    t = np.column_stack([X, np.ones(len(X))])[own] @ model.planes_[1]
    assert model.dual_coef_[1, own] == pytest.approx(1 / (1 + np.exp(t)), abs=1e-4)


# --- planes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [
        [-1, 1], [0, 1], [1, 2], ["a", "b"], [False, True], np.array([0, 1], dtype=np.uint8), [2.0, 7.0],
        pd.Categorical(["b", "c"]),
    ],
)  # fmt: skip
def test_any_two_labels_give_the_exact_planes(labels):
    # exact arithmetic: with eps = 0 the plane of the upper class is (3, 3, -13) / 19, its objective 3 / 38
    A, B = [[1, 2], [2, 1], [3, 3]], [[-1, -1], [-2, 0], [0, -2]]
    y = np.asarray(labels)[[1, 0, 1, 0, 1, 0]]
    X = [row for pair in zip(A, B, strict=True) for row in pair]
    model = NPSVMClassifier("twsvm", tol=1e-12).set_params(formulation__eps=1e-9).fit(X, y)
    assert 19 * model.coef_[1] == pytest.approx([3, 3], abs=1e-5)
    assert 19 * model.intercept_[1] == pytest.approx(-13, abs=1e-5)
    assert model.certificate_[1]["primal"] == pytest.approx(3 / 38, abs=1e-7)
    assert model.classes_.tolist() == sorted(set(y.tolist()))
    assert model.predict(X).tolist() == y.tolist()
    assert model.predict(X).dtype == y.dtype


@pytest.mark.parametrize("name", sorted(set(available()) - {LINEAR_PROGRAM}))
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_every_general_solver_gives_the_same_planes(name, kernel):
    X, y = sample(3, n=24)
    fast = NPSVMClassifier(name, kernel=kernel, tol=1e-10).fit(X, y)
    slow = NPSVMClassifier(name, kernel=kernel, solver="Clarabel").fit(X, y)
    # Clarabel stops at gaps near 1e-9, which allow planes to differ by the root of that
    assert fast.planes_ == pytest.approx(slow.planes_, abs=2e-4)
    for one, other in zip(fast.certificate_, slow.certificate_, strict=True):
        assert one["primal"] == pytest.approx(other["primal"], rel=1e-6)
        assert (one["solver"], other["solver"]) == ("sor", "clarabel")
        assert 0 <= one["relative_gap"] <= 1e-10
        assert one["dual"] + one["gap"] == pytest.approx(one["primal"])
        assert (one["rigorous"], other["rigorous"]) == (True, False)  # SOR's is proved, rounding included


@pytest.mark.parametrize("scheme", SCHEMES)
def test_planes_follow_from_the_multipliers(scheme):
    X, y = sample(3)
    model = NPSVMClassifier(load("hnpsvm")(C1=0.3, C2=0.7), scheme=scheme, tol=1e-12).fit(X, y)
    rows, sign = np.column_stack([X, np.ones(len(X))]), 1 if scheme == "farthest" else -1
    for k, (z, a) in enumerate(zip(model.planes_, model.dual_coef_, strict=True)):
        near = rows[(y == k) != (scheme == "farthest")]
        # eq. (30): z = (S'S + C1 I)^-1 R'a
        assert z == pytest.approx(np.linalg.solve(near.T @ near + 0.3 * np.eye(4), sign * rows.T @ a), abs=1e-9)
        assert (a >= 0).all()
        assert (a <= 0.7).all()
    assert model.support_.tolist() == np.flatnonzero((model.dual_coef_ > 0).any(axis=0)).tolist()
    assert 0 < len(model.support_) <= len(X)


def test_least_squares_planes_have_a_closed_form():
    X, y = sample(3, seed=5)
    model = NPSVMClassifier("ls_twsvm").set_params(formulation__C1=0.4, formulation__C2=3.0).fit(X, y)
    rows = np.column_stack([X, np.ones(len(X))])
    for k, z in enumerate(model.planes_):
        S, R = rows[y != k], rows[y == k]
        # eq. (39) without its dual: (S'S + C1 I + 2 C2 R'R) z = 2 C2 R'e
        assert z == pytest.approx(np.linalg.solve(S.T @ S + 0.4 * np.eye(4) + 6 * R.T @ R, 6 * R.sum(axis=0)), abs=1e-7)


# --- weights -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", available())
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_whole_weights_are_repeated_samples(name, scheme, kernel):
    X, y = sample(3, n=18, spread=4.0)
    weight = np.random.default_rng(1).integers(0, 4, len(X))
    index = np.repeat(np.arange(len(X)), weight)
    make = NPSVMClassifier(name, scheme=scheme, kernel=kernel, tol=1e-11, distance="absolute", random_state=0)
    weighted = clone(make).fit(X, y, sample_weight=weight)
    repeated = clone(make).fit(X[index], y[index])
    tolerance = 1e-5 if name == LINEAR_PROGRAM else 1e-6
    assert weighted.decision_function(X) == pytest.approx(repeated.decision_function(X), abs=tolerance)
    for one, other in zip(weighted.certificate_, repeated.certificate_, strict=True):
        assert one["primal"] == pytest.approx(other["primal"], rel=1e-9)


def test_fractional_weights_solve_the_weighted_primal():
    X, y = sample(2)
    weight = np.random.default_rng(0).uniform(0.2, 3, len(X))
    model = NPSVMClassifier(load("hnpsvm")(C1=0.5, C2=2.0), tol=1e-10).fit(X, y, sample_weight=weight)
    rows, own = np.column_stack([X, np.ones(len(X))]), y == 1
    z = cp.Variable(4)
    near = cp.sum_squares(cp.multiply(np.sqrt(weight[~own]), rows[~own] @ z)) / 2
    hinge = 2.0 * weight[own] @ cp.pos(1 - rows[own] @ z)
    problem = cp.Problem(cp.Minimize(near + 0.25 * cp.sum_squares(z) + hinge))
    assert model.certificate_[1]["primal"] == pytest.approx(problem.solve(solver="CLARABEL"), rel=1e-6)
    assert model.planes_[1] == pytest.approx(z.value, abs=1e-4)


def test_zero_weights_leave_samples_out_and_their_class_too():
    X, y = sample(3)
    some = y != 2
    left_out = NPSVMClassifier().fit(X, y, sample_weight=some.astype(float))
    removed = NPSVMClassifier().fit(X[some], y[some])
    assert left_out.classes_.tolist() == [0, 1]
    assert left_out.planes_ == pytest.approx(removed.planes_, abs=1e-12)
    assert (left_out.dual_coef_[:, ~some] == 0).all()
    assert left_out.dual_coef_.shape == (2, len(X))


def test_class_weights_are_sample_weights_by_class():
    X, y = sample(3, n=50)
    some = np.r_[np.flatnonzero(y == 0)[:4], np.flatnonzero(y != 0)]
    X, y = X[some], y[some]
    by_class = NPSVMClassifier(class_weight={0: 3.0, 1: 0.5}).fit(X, y)
    by_sample = NPSVMClassifier().fit(X, y, sample_weight=np.array([3.0, 0.5, 1.0])[y])
    assert by_class.planes_ == pytest.approx(by_sample.planes_, abs=1e-9)
    counts = np.bincount(y)
    balanced = NPSVMClassifier(class_weight="balanced").fit(X, y)
    explicit = NPSVMClassifier(class_weight=dict(enumerate(len(y) / (3 * counts)))).fit(X, y)
    assert balanced.planes_ == pytest.approx(explicit.planes_, abs=1e-9)
    double = NPSVMClassifier(class_weight="balanced").fit(X, y, sample_weight=np.full(len(y), 2.0))
    again = NPSVMClassifier(class_weight="balanced").fit(np.r_[X, X], np.r_[y, y])
    assert double.planes_ == pytest.approx(again.planes_, abs=1e-7)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_general_solvers_take_whole_weights_and_refuse_others(kernel):
    X, y = sample(2, n=16)
    weight = np.random.default_rng(2).integers(0, 3, len(X))
    slow = NPSVMClassifier(kernel=kernel, solver="clarabel").fit(X, y, sample_weight=weight)
    fast = NPSVMClassifier(kernel=kernel, tol=1e-10).fit(X, y, sample_weight=weight)
    assert slow.planes_ == pytest.approx(fast.planes_, abs=1e-4)
    # multipliers need not be unique, their shape is: one a sample given, not one a copy
    assert slow.dual_coef_.shape == fast.dual_coef_.shape == (2, len(X))
    with pytest.raises(ValueError, match=r"sample_weight.*solver='clarabel' takes no weights.*whole-number"):
        slow.fit(X, y, sample_weight=np.full(len(X), 0.5))
    with pytest.raises(ValueError, match=r"sample_weight.*Logistic declares no conjugate, and none follows"):
        NPSVMClassifier(Logistic()).fit(X, y, sample_weight=np.full(len(X), 0.5))


# --- kernels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_named_callable_precomputed_and_rectangular_kernels_agree(scheme):
    X, y = sample(3)
    new = sample(3, seed=3)[0]
    make = NPSVMClassifier("tbsvm", scheme=scheme, gamma=0.1, tol=1e-10, random_state=0)
    named = clone(make).set_params(kernel="rbf").fit(X, y)
    called = clone(make).set_params(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.1)).fit(X, y)
    given = clone(make).set_params(kernel="precomputed").fit(rbf_kernel(X, gamma=0.1), y)
    every = clone(make).set_params(kernel="rbf", landmarks=X).fit(X, y)
    wanted = named.decision_function(new)
    assert called.decision_function(new) == pytest.approx(wanted, abs=1e-10)
    assert given.decision_function(rbf_kernel(new, X, gamma=0.1)) == pytest.approx(wanted, abs=1e-10)
    assert every.decision_function(new) == pytest.approx(wanted, abs=1e-10)
    assert named.centres_ == pytest.approx(X)
    assert given.centres_ is None
    assert every.centre_indices_ is None
    if scheme == "nearest":  # |x z| / sqrt(w' K w), typed out
        K, w, b = rbf_kernel(X, gamma=0.1), named.planes_[:, :-1], named.planes_[:, -1]
        distance = np.abs(rbf_kernel(new, X, gamma=0.1) @ w.T + b) / np.sqrt(np.diag(w @ K @ w.T))
        assert wanted == pytest.approx(-distance, abs=1e-10)


def test_landmarks_are_stratified_seeded_and_counted():
    X, y = sample(3, n=60)
    y = np.where(np.arange(60) < 3, 9, y)  # a class of three
    count = NPSVMClassifier(kernel="rbf", landmarks=12, random_state=0).fit(X, y)
    again = NPSVMClassifier(kernel="rbf", landmarks=np.int64(12), random_state=0).fit(X, y)
    other = NPSVMClassifier(kernel="rbf", landmarks=12, random_state=1).fit(X, y)
    fraction = NPSVMClassifier(kernel="rbf", landmarks=0.2, random_state=0).fit(X, y)
    assert len(set(count.centre_indices_)) == 12
    assert count.centre_indices_.tolist() == again.centre_indices_.tolist() == fraction.centre_indices_.tolist()
    assert count.centre_indices_.tolist() != other.centre_indices_.tolist()
    assert count.centres_ == pytest.approx(X[count.centre_indices_])
    drawn = {label: int((y[count.centre_indices_] == label).sum()) for label in set(y.tolist())}
    for label, found in drawn.items():
        assert abs(found - 12 * (y == label).mean()) < 1
        assert found >= 1
    assert count.planes_.shape == (4, 13)
    few = NPSVMClassifier(kernel="rbf", landmarks=0.01, random_state=0).fit(X, y)
    assert sorted(y[few.centre_indices_]) == [0, 1, 2, 9]


def test_landmarks_of_a_precomputed_kernel_are_columns():
    X, y = sample(2)
    K = rbf_kernel(X)
    given = NPSVMClassifier("tbsvm", kernel="precomputed", landmarks=8, random_state=0).fit(K, y)
    named = NPSVMClassifier("tbsvm", kernel="rbf", gamma=1 / 3, landmarks=8, random_state=0).fit(X, y)
    assert given.decision_function(K) == pytest.approx(named.decision_function(X), abs=1e-9)


def test_gamma_scale_is_scikit_learns():
    X, y = sample(2)
    scale = NPSVMClassifier(kernel="rbf", tol=1e-13).fit(X, y)
    typed = NPSVMClassifier(kernel="rbf", gamma=1 / (3 * X.var()), tol=1e-13).fit(X, y)
    assert scale.planes_ == pytest.approx(typed.planes_, abs=1e-9)
    auto = NPSVMClassifier(kernel="poly", gamma="auto", degree=2, tol=1e-13).fit(X, y)
    typed = NPSVMClassifier(kernel="poly", gamma=1 / 3, degree=2, tol=1e-13).fit(X, y)
    assert auto.planes_ == pytest.approx(typed.planes_, abs=1e-8)


def test_prediction_in_blocks_is_prediction(monkeypatch):
    X, y = sample(3)
    model = NPSVMClassifier("tbsvm", kernel="rbf").fit(X, y)
    whole = model.decision_function(X)
    monkeypatch.setattr(plane_classifier, "_BLOCK", 5 * model.planes_.shape[1])
    assert model.decision_function(X) == pytest.approx(whole, abs=1e-12)
    sizes, rows = [], model._rows
    monkeypatch.setattr(model, "_rows", lambda block: sizes.append(len(block)) or rows(block))
    model.predict(X)
    assert max(sizes) == 5
    assert sum(sizes) == len(X)


# --- decisions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("distance", [None, "absolute", "euclidean"])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_scores_agree_with_predictions_and_distances(scheme, distance, classes, kernel):
    X, y = sample(classes)
    y = np.array(["d", "a", "c", "b"])[y]
    model = NPSVMClassifier("hnpsvm", scheme=scheme, distance=distance, kernel=kernel).fit(X, y)
    scores, found = model.decision_function(X), model.predict(X)
    assert model.distance_ == (distance or {"farthest": "absolute", "nearest": "euclidean"}[scheme])
    assert model.classes_[decide(model.plane_distances(X), scheme)].tolist() == found.tolist()
    if classes == 2:
        assert scores.shape == (len(X),)
        assert model.classes_[(scores > 0).astype(int)].tolist() == found.tolist()
    else:
        assert scores.shape == (len(X), 4)
        assert model.classes_[scores.argmax(axis=1)].tolist() == found.tolist()


def with_planes(planes, distance="euclidean"):
    """Return a fitted nearest-plane model whose planes are replaced."""
    X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array(["a", "a", "b", "b"])
    model = NPSVMClassifier("ls_twsvm", scheme="nearest", distance=distance).fit(X, y)
    model.planes_ = np.asarray(planes, dtype=float)
    model._flat = np.zeros(2, dtype=bool)
    model._norms = np.abs(model.planes_[:, 0]) if distance == "euclidean" else np.ones(2)
    return model


def test_ties_and_both_rules_by_hand():
    # planes x = 0 and 2x - 6 = 0, points 1.5, 2, 1.8, 1; the first of classes_ has a tie
    planes, points = [[1, 0], [2, -6]], [[1.5], [2.0], [1.8], [1.0]]
    assert with_planes(planes, "absolute").predict(points).tolist() == ["a", "a", "a", "a"]
    assert with_planes(planes).predict(points).tolist() == ["a", "b", "b", "a"]
    assert with_planes(planes).decision_function(points) == pytest.approx([0, 1, 0.6, -1])
    # a point on both planes ties too
    assert with_planes([[1, -2], [3, -6]]).predict([[2.0]]).tolist() == ["a"]
    assert with_planes([[1, -2], [3, -6]]).decision_function([[2.0]]).tolist() == [0]


def test_a_plane_without_normal_warns_once_names_its_class_and_scores_finitely():
    # one point of each class twice over: no w separates them, and z = (0, b) is optimal
    X, y = np.array([[1.0], [-1.0], [1.0], [-1.0]]), np.array(["p", "p", "q", "q"])
    with pytest.warns(
        ZeroNormalWarning,
        match=r"planes of classes p, q have w = 0, and infinite .*never the nearest",
    ):
        model = NPSVMClassifier("tbsvm").set_params(formulation__C2=100.0).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()
    assert model.predict(X).tolist() == ["p"] * 4
    with pytest.warns(ZeroNormalWarning, match=r"planes of classes p, q have w = 0, and the same distance \|b\| from"):
        absolute = NPSVMClassifier(load("tbsvm")(C2=100.0), distance="absolute").fit(X, y)
    assert absolute.decision_function(X).tolist() == [0.0] * 4  # both |b| are one but for rounding: a tie


def test_where_no_plane_tells_anything_apart_the_first_class_is_the_answer():
    # noise and a large C2: w = 0 is optimal for every class, and what rounding leaves of w must not decide
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 3)), np.array(["c", "a", "b"])[rng.integers(0, 3, 60)]
    for seed, data in ((0, X), (1, X), (0, X[:, ::-1])):
        with pytest.warns(ZeroNormalWarning, match="the planes of classes a, b, c have w = 0, and the same distance"):
            model = NPSVMClassifier(load("hnpsvm")(C2=100.0), random_state=seed).fit(data, y)
        assert set(model.predict(data)) == {"a"}


# --- what comes in -------------------------------------------------------------------------------------


def test_containers_do_not_matter(tmp_path):
    X, y = sample(3)
    X = X.astype(np.float32).astype(float)
    wanted = NPSVMClassifier(random_state=0).fit(X, y)
    file = np.lib.format.open_memmap(tmp_path / "X.npy", mode="w+", dtype=float, shape=X.shape)
    file[:] = X
    file.flush()
    frame = pd.DataFrame(X, columns=list("uvw"), index=np.arange(len(X))[::-1])
    for given in (
        X.tolist(),
        frame,
        np.asfortranarray(X),
        X.astype(np.float32),
        np.load(tmp_path / "X.npy", mmap_mode="r"),
    ):
        before = np.array(given, copy=True)
        model = NPSVMClassifier(random_state=0).fit(given, pd.Series(y) if given is frame else y)
        assert model.planes_ == pytest.approx(wanted.planes_, abs=1e-12)
        assert model.predict(given).tolist() == wanted.predict(X).tolist()
        assert np.array_equal(np.asarray(given), before)
    assert NPSVMClassifier().fit(frame, y).feature_names_in_.tolist() == ["u", "v", "w"]
    with pytest.warns(DataConversionWarning, match="column-vector"):
        NPSVMClassifier().fit(X, y[:, None])


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"formulation": "hnpsvn"}, "did you mean 'hnpsvm'"),
        ({"formulation": 3}, "'formulation' parameter"),
        ({"formulation": "nowhere.py"}, "there is no such file"),
        ({"formulation": load("hnpsvm")(C1=-1.0)}, r"C1=-1.0 must lie in \(0, inf\)"),
        ({"formulation": load("nppc")(d=1.0)}, r"d=1.0 must lie in \(0, 1\)"),
        ({"scheme": "farthst"}, "scheme='farthst'.*did you mean 'farthest'"),
        ({"distance": "euclid"}, "distance='euclid'.*did you mean 'euclidean'"),
        ({"solver": "clarable"}, "solver='clarable'.*did you mean 'clarabel'"),
        ({"kernel": "rfb"}, "kernel='rfb'.*did you mean 'rbf'"),
        ({"kernel": 3}, "'kernel' parameter"),
        ({"kernel": "rbf", "gamma": 0.0}, "'gamma' parameter"),
        ({"kernel": "rbf", "gamma": "big"}, "'gamma' parameter"),
        ({"kernel": "poly", "degree": 0.5}, "'degree' parameter"),
        ({"kernel": "poly", "degree": 300, "gamma": 100.0}, "kernel='poly' gives values that are not finite"),
        ({"kernel": lambda A, B: np.ones(3)}, "kernel must return a matrix"),
        ({"kernel": "precomputed"}, "kernel='precomputed': X must be the square matrix"),
        ({"landmarks": 5}, "landmarks must be None with kernel='linear'"),
        ({"kernel": "rbf", "landmarks": 0}, "'landmarks' parameter"),
        ({"kernel": "rbf", "landmarks": 1.5}, "'landmarks' parameter"),
        ({"kernel": "rbf", "landmarks": 1}, "landmarks=1 must lie between"),
        ({"kernel": "rbf", "landmarks": 10_000}, "landmarks=10000 must lie between"),
        ({"kernel": "rbf", "landmarks": [[1.0, 2.0]]}, "landmarks have 2 features; X has 3"),
        ({"kernel": "rbf", "landmarks": [[1.0, 2.0, np.nan]]}, "landmarks must be a count.*contains NaN"),
        ({"kernel": "rbf", "landmarks": [1, 2, 3]}, "landmarks must be a count, a fraction, or a matrix of centres"),
        ({"kernel": "rbf", "landmarks": {1, 2}}, "landmarks must be a count, a fraction, or a matrix of centres"),
        ({"kernel": lambda A, B: "x"}, "kernel must return a matrix of real numbers"),
        ({"kernel": lambda A, B: 1j * A @ B.T}, "kernel must return a matrix of real numbers: they are complex"),
        ({"kernel": lambda A, B: np.nan * A @ B.T}, "kernel, a function, gives values that are not finite"),
        ({"class_weight": {0: "a"}}, "class_weight=.*positive"),
        ({"class_weight": {0: 1e200}}, "class_weight=.*positive"),
        ({"formulation": dict}, "found the class dict"),
        ({"tol": -1e-3}, "'tol' parameter"),
        ({"max_iter": 0}, "'max_iter' parameter"),
        ({"max_iter": 1.5}, "'max_iter' parameter"),
        ({"class_weight": "even"}, "'class_weight' parameter"),
        ({"class_weight": {0: -1.0}}, "class_weight=.*positive"),
        ({"class_weight": {7: 1.0}}, "class_weight"),
        ({"n_jobs": "two"}, "'n_jobs' parameter"),
        ({"random_state": "seed"}, "'random_state' parameter"),
    ],
)
def test_bad_parameters_are_named(parameters, says):
    X, y = sample(2)
    with pytest.raises(ValueError, match=says):
        NPSVMClassifier(**parameters).fit(X, y)


@pytest.mark.parametrize(
    ("X", "y", "options", "says"),
    [
        ([[0.0], [1.0]], [1, 1], {}, r"at least 2 classes.*only one class: 1"),
        ([[0.0], [1.0]], [0.5, 1.5], {}, "Unknown label type"),
        ([[0.0], [1.0]], ["a", 1], {}, "Unknown label type|not supported between"),
        ([[0.0], [np.nan]], [0, 1], {}, "Input X contains NaN"),
        ([[0.0], [1.0]], [0, np.nan], {}, "Input y contains NaN"),
        ([[0.0], [1.0]], [[0, 1], [1, 0]], {}, "y should be a 1d array"),
        ([[0.0], [1.0]], [0, 1], {"sample_weight": [1.0, -1.0]}, "[Nn]egative values in.*sample_weight"),
        ([[0.0], [1.0]], [0, 1], {"sample_weight": [1.0, 0.0]}, "only one class"),
        ([[0.0], [1.0]], [0, 1], {"sample_weight": [1.0]}, "sample_weight.shape"),
        ([[0.0], [1.0]], [0, 1], {"sample_weight": [1.0, 1e-320]}, "sample_weight must be zero or between 1e-100 and"),
        (np.array([[1j], [1.0]]), [0, 1], {}, "Complex data not supported"),
        ([["a"], ["b"]], [0, 1], {}, "could not convert string to float"),
        ([[0.0], [1.0]], [0, 1], {"sample_weight": [1.0, np.inf]}, "sample_weight contains infinity"),
    ],
)
def test_bad_data_are_named(X, y, options, says):
    y = np.array(y, dtype=object) if "a" in y else y
    with pytest.raises((ValueError, TypeError), match=says):
        NPSVMClassifier().fit(X, y, **options)


def test_predict_before_fit_and_with_other_features():
    with pytest.raises(NotFittedError):
        NPSVMClassifier().predict([[0.0]])
    with pytest.raises(ValueError, match="X has 2 features, but NPSVMClassifier is expecting 1"):
        NPSVMClassifier().fit([[0.0], [1.0]], [0, 1]).predict([[0.0, 1.0]])
    with pytest.raises(AttributeError, match="coef_ is only there with kernel='linear'"):
        _ = NPSVMClassifier(kernel="rbf").fit([[0.0], [1.0]], [0, 1]).coef_


def test_two_samples_one_a_class_suffice():
    model = NPSVMClassifier().fit([[0.0], [4.0]], ["a", "b"])
    assert model.predict([[0.5], [3.5]]).tolist() == ["a", "b"]


def test_an_early_stop_warns_with_the_gap_reached():
    X, y = sample(2, n=60, spread=6.0)
    with pytest.warns(ConvergenceWarning, match=r"class 0: relative duality gap \d\.\de.*max_iter.*C1.*C2"):
        model = NPSVMClassifier(kernel="rbf", max_iter=1, tol=1e-12).fit(X, y)
    assert not all(c["converged"] for c in model.certificate_)
    assert {c["status"] for c in model.certificate_ if not c["converged"]} == {"iteration limit"}
    assert model.n_iter_ >= 1


def test_a_general_solvers_statement_is_of_the_plane_it_returned():
    X, y = sample(2)
    best = NPSVMClassifier(tol=1e-12).fit(X, y).certificate_[0]["primal"]
    for options in ({"max_iter": 1}, {"max_iter": 3}, {"time_limit": 1e-9}, {}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = NPSVMClassifier(solver="clarabel", **options).fit(X, y)
        found = model.certificate_[0]
        S, R = (np.column_stack([X[y == k], np.ones((y == k).sum())]) for k in (1, 0))
        z = model.planes_[0]
        value = 0.5 * np.sum((S @ z) ** 2) + 0.5 * z @ z + np.maximum(1 - R @ z, 0).sum()
        assert found["primal"] == pytest.approx(value, rel=1e-6)
        assert found["dual"] <= best * (1 + 1e-9)
        assert found["primal"] - found["gap"] == pytest.approx(found["dual"])
        size = max(abs(found["primal"]), abs(found["primal"] - found["gap"]))
        assert found["relative_gap"] >= found["gap"] / size * (1 - 1e-9)
        assert found["converged"] == (not options)


class Wrong(Loss):
    """The hinge with the conjugate of another loss."""

    def value(self, t):
        return cp.pos(1 - t)

    def conjugate(self, v):
        return v, [v >= -1, v <= 0.5]


def test_a_dual_that_is_not_the_primals_is_not_trained_on():
    X, y = sample(2)
    with pytest.raises(ValueError, match=r"Wrong: its dual is not that of its primal: at a plane .* npsvm verify"):
        NPSVMClassifier(Wrong).fit(X, y)
    on_the_primal = NPSVMClassifier(Wrong, solver="clarabel").fit(X, y)
    assert on_the_primal.planes_ == pytest.approx(NPSVMClassifier().fit(X, y).planes_, abs=1e-4)


@pytest.mark.parametrize("name", available())
def test_no_right_dual_is_taken_for_a_wrong_one(name):
    for C1, C2 in product([2.0**-8, 1.0, 1e4], [2.0**-8, 1.0, 1e6]):
        setting = {"C1": C1} if "C1" in load(name)().get_params() else {}
        formulation = load(name)(C2=C2, **setting)
        assert disagreement(formulation, compile(formulation)) is None


def test_hyperparameters_beyond_what_a_dual_can_be_read_at():
    X, y = sample(2)
    for value in (1e-300, 1e-20, 1e16, 1e300):
        with pytest.raises(NotCompilable, match=r"C2=.* is beyond 1e-15 to 1e\+15"):
            compile(load("hnpsvm")(C2=value))
    with pytest.raises(SolverError, match=r"SOR does not solve HNPSVM \(C2=1e\+16 is beyond .*clarabel returned no"):
        NPSVMClassifier(load("hnpsvm")(C2=1e16)).fit(X, y)
    assert compile(load("twsvm")(eps=0.0)).ridge == (0.0, 0.0)


def test_a_fit_that_fails_leaves_no_classifier():
    X, y = sample(2)
    model = NPSVMClassifier().fit(X, y)
    with pytest.raises(ValueError, match="at least 2 classes"):
        model.fit(X, np.zeros(len(X)))
    for ask in (lambda: model.predict(X), lambda: model.coef_, lambda: model.intercept_):
        with pytest.raises(NotFittedError):
            ask()
    assert not hasattr(model, "coef_")


def test_values_beyond_the_largest_float_are_refused_at_prediction_too():
    X, y = sample(2)
    with pytest.raises(ValueError, match="X: kernel='poly' gives values that are not finite"):
        NPSVMClassifier(kernel="poly").fit(X, y).predict(np.full((2, 3), 1e150))
    with pytest.raises(ValueError, match="gamma='scale': the variance of X is beyond the largest float"):
        NPSVMClassifier(kernel="rbf").fit(1e200 * X, y)


# --- parameters where they belong ----------------------------------------------------------------------


def test_hyperparameters_of_names_classes_and_objects(tmp_path):
    assert NPSVMClassifier().set_params(formulation__C2=4.0).formulation.C2 == 4.0
    both = NPSVMClassifier().set_params(formulation__C1=3.0, formulation="ls_twsvm")
    assert (type(both.formulation).__name__, both.formulation.C1) == ("LSTWSVM", 3.0)
    assert NPSVMClassifier(load("nppc")).set_params(formulation__d=0.2).formulation.d == 0.2
    assert NPSVMClassifier(Framework(Logistic())).set_params(formulation__C2=0.1).get_params()["formulation__C2"] == 0.1
    assert NPSVMClassifier(load("nppc")()).get_params()["formulation__d"] == 0.5
    with pytest.raises(ValueError, match="Invalid parameter 'C9' for estimator HNPSVM"):
        NPSVMClassifier().set_params(formulation__C9=1.0)
    name = NPSVMClassifier("hnpsvm")
    assert clone(name).set_params(formulation__C1=9.0).formulation.C1 == 9.0
    assert name.formulation == "hnpsvm"
    file = tmp_path / "mine.py"
    file.write_text("import cvxpy as cp\nfrom npsvm_cvx import Loss\n\n\nclass Mine(Loss):\n"
                    "    def value(self, t):\n        return cp.square(1 - t)\n\n"
                    "    def conjugate(self, v):\n        return v + cp.square(v) / 4, []\n")  # fmt: skip
    X, y = sample(2)
    mine = NPSVMClassifier(str(file)).set_params(formulation__C2=2.0).fit(X, y)
    assert mine.planes_ == pytest.approx(NPSVMClassifier(load("ls_twsvm")(C2=2.0)).fit(X, y).planes_, abs=1e-9)
    assert pickle.loads(pickle.dumps(mine)).predict(X).tolist() == mine.predict(X).tolist()


def test_fit_leaves_the_formulation_given_alone():
    X, y = sample(2)
    given = load("hnpsvm")(C2=2.0)
    model = NPSVMClassifier(given).fit(X, y)
    assert model.formulation is given
    assert model.formulation_ is not given
    assert model.formulation_.get_params() == given.get_params()


class Pinball(Loss):
    """A loss of the user's own, with a hyperparameter without default: an object knows its value."""

    def __init__(self, tau):
        self.tau = tau

    def value(self, t):
        return cp.maximum(1 - t, -self.tau * (1 - t))

    def conjugate(self, v):
        return v, [v >= -1, v <= self.tau]


class Squared(Loss):
    """The square of the hinge, all of it with defaults."""

    def __init__(self, s=1.0):
        self.s = s

    def value(self, t):
        return self.s * cp.square(cp.pos(1 - t))

    def conjugate(self, v):
        return v + cp.square(v) / (4 * self.s), [v <= 0]


@pytest.mark.parametrize("given", [Squared, Squared(0.5), Pinball(0.3)], ids=["class", "object", "no defaults"])
def test_losses_have_the_frameworks_hyperparameters_too(given):
    X, y = sample(2)
    model = NPSVMClassifier(given).set_params(formulation__C1=0.5, formulation__C2=2.0)
    assert (model.formulation.C1, model.formulation.C2) == (0.5, 2.0)
    own = "formulation__loss__tau" if isinstance(given, Pinball) else "formulation__s"
    search = GridSearchCV(
        NPSVMClassifier(given), {"formulation__C2": [0.5, 2.0], own: [0.2, 0.6]}, cv=2, error_score="raise"
    ).fit(X, y)
    again = pickle.loads(pickle.dumps(search))
    assert (again.predict(X) == search.predict(X)).all()
    assert str(again.best_estimator_.formulation_) == str(search.best_estimator_.formulation_)


def test_searches_over_names_and_their_hyperparameters():
    X, y = sample(3)
    grid = {
        "formulation": ["hnpsvm", "ls_twsvm"],
        "formulation__C1": [0.1, 10.0],
        "kernel": ["linear", "rbf"],
    }
    search = GridSearchCV(NPSVMClassifier(random_state=0), grid, cv=2, error_score="raise").fit(X, y)
    assert len(search.cv_results_["params"]) == 8
    assert search.best_params_["formulation__C1"] == search.best_estimator_.formulation_.C1
    # the name did not become shared state: each candidate has the score of its own fit
    alone = NPSVMClassifier("ls_twsvm", kernel="rbf", random_state=0).set_params(formulation__C1=10.0)
    where = search.cv_results_["params"].index({"formulation": "ls_twsvm", "formulation__C1": 10.0, "kernel": "rbf"})
    assert search.cv_results_["mean_test_score"][where] == cross_val_score(alone, X, y, cv=2).mean()
    drawn = RandomizedSearchCV(
        make_pipeline(StandardScaler(), NPSVMClassifier()),
        {"npsvmclassifier__formulation__C2": [0.5, 2.0]}, n_iter=2, cv=2, random_state=0, error_score="raise",
    )  # fmt: skip
    assert drawn.fit(X, y).best_score_ > 0.5


def test_wrappers_of_scikit_learn():
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    for model in (
        OneVsRestClassifier(NPSVMClassifier("twsvm", kernel="rbf")),
        OneVsOneClassifier(NPSVMClassifier("tbsvm")),
        CalibratedClassifierCV(NPSVMClassifier("hnpsvm", kernel="rbf"), cv=2),
    ):
        assert model.fit(X, y).score(X, y) > 0.93


def test_n_jobs_and_pickles_change_nothing():
    X, y = sample(3)
    one = NPSVMClassifier(random_state=0).fit(X, y)
    two = NPSVMClassifier(random_state=0, n_jobs=2).fit(X, y)
    assert (one.planes_ == two.planes_).all()
    slow = NPSVMClassifier("hnpsvm", solver="clarabel", n_jobs=2).fit(X, y)
    assert slow.planes_ == pytest.approx(one.planes_, abs=1e-4)
    again = pickle.loads(pickle.dumps(two))
    assert (again.decision_function(X) == two.decision_function(X)).all()
    assert again.certificate_ == two.certificate_
