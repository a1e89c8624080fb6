"""The path has the planes of separate fits, and the cross-validated classifier the choice of a plain search."""

import pickle
import warnings

import cvxpy as cp
import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import f1_score, make_scorer, roc_auc_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold, PredefinedSplit, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from npsvm_cvx import Loss, NPSVMClassifier, NPSVMClassifierCV, available, load, npsvm_path
from npsvm_cvx.planes import ZeroNormalWarning
from npsvm_cvx.selection import POWERS


class Logistic(Loss):
    """log(1 + exp(-t)), which is beyond SOR's numbers."""

    def value(self, t):
        return cp.logistic(-t)


C1S, C2S = [0.25, 4.0], [8.0, 0.5, 2.0]  # C2 out of order on purpose


def sample(classes=3, seed=0, n=60, spread=2.5):
    return make_blobs(n, 3, centers=classes, cluster_std=spread, random_state=seed)


def axes(name):
    """Return the grid of a formulation, with C1 where it has that, as keyword arguments and as a plain search's."""
    has_C1 = "C1" in load(name)().get_params()
    own = {"C1s": C1S, "C2s": C2S} if has_C1 else {"C2s": C2S}
    plain = {"formulation__C1": C1S, "formulation__C2": C2S} if has_C1 else {"formulation__C2": C2S}
    return own, plain


# --- the path --------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::npsvm_cvx.planes.ZeroNormalWarning")  # where w = 0 is optimal: rightly
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("name", available())
def test_the_planes_of_the_path_are_those_of_separate_fits(name, kernel):
    X, y = sample()
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    own, _ = axes(name)
    path = npsvm_path(X, y, name, **own, kernel=kernel, gamma=0.1, tol=1e-10, sample_weight=weight)
    assert path.classes.tolist() == [0, 1, 2]
    assert path.C2.tolist() == C2S
    assert (path.relative_gap <= 1e-10).all()
    for i, C1 in enumerate(path.C1):
        for j, C2 in enumerate(path.C2):
            setting = {"formulation__C2": C2} | ({} if np.isnan(C1) else {"formulation__C1": C1})
            model = NPSVMClassifier(name, kernel=kernel, gamma=0.1, tol=1e-10, distance="absolute")
            model.set_params(**setting).fit(X, y, sample_weight=weight)
            rows = np.column_stack([X if kernel == "linear" else rbf_kernel(X, gamma=0.1), np.ones(len(X))])
            one, other = rows @ path.planes[i, j].T, rows @ model.planes_.T
            # relative gaps of 1e-10 allow values on the data to differ by the root of that
            assert np.abs(one - other).max() <= 1e-4 * np.abs(other).max()


def test_formulations_without_a_dual_take_a_general_solver_at_each_setting():
    X, y = sample(2, n=20)
    path = npsvm_path(X, y, Logistic(), C1s=[1.0], C2s=[0.5, 2.0], tol=1e-6)
    assert path.planes.shape == (1, 2, 2, 4)
    assert (path.relative_gap <= 1e-6).all()
    alone = NPSVMClassifier(Logistic()).set_params(formulation__C2=2.0).fit(X, y)
    assert path.planes[0, 1] == pytest.approx(alone.planes_, abs=1e-5)
    slow = npsvm_path(X, y, "hnpsvm", C1s=[1.0], C2s=[0.5], solver="clarabel", tol=1e-6)
    assert slow.planes == pytest.approx(npsvm_path(X, y, "hnpsvm", C1s=[1.0], C2s=[0.5]).planes, abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"C1s": [0.0, 1.0]}, r"C1s must be a sequence of positive, finite numbers; found \[0\.0, 1\.0\]"),
        ({"C2s": "many"}, "C2s must be a sequence"),
        ({"C2s": []}, "C2s must be a sequence"),
        ({"C2s": [[1.0], [2.0]]}, "C2s must be a sequence"),
        ({"formulation": "twsvm", "C1s": [1.0]}, "TWSVM has no hyperparameter C1; it has C2, eps"),
        ({"formulation": "twsvm", "C2s": {1.0, 2.0}}, "C2s must be a sequence"),
        ({"formulation": "twsvm", "C2s": [1j]}, "C2s must be a sequence"),
        ({"formulation": "twsvm", "C2s": ["1", "2"]}, "C2s must be a sequence"),
        ({"max_iter": 3}, "npsvm_path has no max_iter"),
        ({"time_limit": 3.0}, "npsvm_path has no time_limit"),
        ({"formulation": "hnpsmv"}, "did you mean 'hnpsvm'"),
        ({"kernel": "rfb"}, "did you mean 'rbf'"),
        ({"tol": -1.0}, "'tol' parameter"),
    ],
)
def test_what_is_wrong_with_a_path_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        npsvm_path(*sample(2, n=12), **arguments)


def test_planes_that_stay_above_tol_are_counted_in_a_warning():
    with pytest.warns(ConvergenceWarning, match=r"\d of 2 planes did not converge to tol=0: relative duality gap"):
        npsvm_path(*sample(2, n=12), C1s=[1.0], C2s=[1.0], tol=0)


# --- the classifier --------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::npsvm_cvx.planes.ZeroNormalWarning")  # where w = 0 is optimal: rightly
@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
@pytest.mark.parametrize("name", available())
def test_the_choice_is_that_of_a_plain_search(name, kernel):
    X, y = sample(spread=1.2)  # where classes overlap more, a large C2 ends at w = 0 and decisions are rounding
    data = rbf_kernel(X, gamma=0.1) if kernel == "precomputed" else X
    own, plain = axes(name)
    cv = StratifiedKFold(3, shuffle=True, random_state=0)
    found = NPSVMClassifierCV(name, kernel=kernel, cv=cv, **own, random_state=0).fit(data, y)
    search = GridSearchCV(NPSVMClassifier(name, kernel=kernel, random_state=0), plain, cv=cv).fit(data, y)
    assert found.cv_results_["params"] == search.cv_results_["params"]
    for part in ("mean_test_score", "std_test_score", "split2_test_score"):
        assert found.cv_results_[part] == pytest.approx(search.cv_results_[part], abs=1e-12)
    # means that differ by the rounding of a sum are equal, which the plain search does not know
    means = np.round(search.cv_results_["mean_test_score"], 9)
    assert found.best_index_ == np.argmax(means)
    assert found.cv_results_["rank_test_score"].tolist() == [1 + int((means > mean).sum()) for mean in means]
    assert found.best_score_ == pytest.approx(search.best_score_)
    best = NPSVMClassifier(name, kernel=kernel, random_state=0).set_params(**found.best_params_).fit(data, y)
    assert (found.planes_ == best.planes_).all()
    assert found.certificate_ == best.certificate_
    assert found.formulation_.get_params() == best.formulation_.get_params()
    assert (found.predict(data) == best.predict(data)).all()
    assert (found.cv_results_["max_relative_gap"] <= 1e-8).all()


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_check_estimator(kernel):
    model = NPSVMClassifierCV(kernel=kernel, C1s=[0.1, 1.0], C2s=[1.0, 10.0], cv=2)
    with warnings.catch_warnings():
        # some checks have noise for data, where w = 0 is optimal, and classes of fewer samples than folds
        warnings.simplefilter("ignore", ZeroNormalWarning)
        warnings.filterwarnings("ignore", message="The least populated class")
        results = check_estimator(model, on_skip=None)
    passed = [r for r in results if r["status"] == "passed"]
    # 63, 62 and 60 checks in scikit-learn 1.9, fewer before; array API input needs an opt-in by SciPy
    assert len(passed) >= 54
    assert {r["check_name"] for r in results if r["status"] != "passed"} <= {"check_array_api_input"}


def test_other_parameters_are_searched_as_well():
    X, y = sample()
    grid = [{"gamma": [0.01, 0.1], "formulation__tau": [0.2, 0.5]}, {"landmarks": [6]}]
    cv = StratifiedKFold(3)
    found = NPSVMClassifierCV("pinball", kernel="rbf", grid=grid, C1s=[1.0], C2s=[0.5, 4.0], cv=cv, random_state=0)
    found.fit(X, y)
    assert len(found.cv_results_["params"]) == (4 + 1) * 2
    assert found.cv_results_["param_gamma"].mask.tolist() == [False] * 8 + [True] * 2
    for at in (0, 5, 9):
        alone = NPSVMClassifier("pinball", kernel="rbf", random_state=0).set_params(**found.cv_results_["params"][at])
        assert found.cv_results_["mean_test_score"][at] == pytest.approx(cross_val_score(alone, X, y, cv=cv).mean())
    best = NPSVMClassifier("pinball", kernel="rbf", random_state=0).set_params(**found.best_params_).fit(X, y)
    assert (found.decision_function(X) == best.decision_function(X)).all()
    assert found.gamma == "scale"  # the parameters given are left alone; the fit has the ones found


def test_any_scorer_and_weights():
    X, y = sample(2)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    cv, grid = StratifiedKFold(3), {"C1s": [1.0], "C2s": [0.1, 10.0]}
    plain = {"formulation__C2": [0.1, 10.0]}
    for scoring in (
        "f1",
        "balanced_accuracy",
        "roc_auc",
        make_scorer(roc_auc_score, response_method="decision_function"),
    ):
        found = NPSVMClassifierCV(**grid, cv=cv, scoring=scoring).fit(X, y)
        search = GridSearchCV(NPSVMClassifier(), plain, cv=cv, scoring=scoring).fit(X, y)
        assert found.cv_results_["mean_test_score"] == pytest.approx(search.cv_results_["mean_test_score"])
    # a scorer without weights is asked without
    for scoring in ("adjusted_rand_score", lambda estimator, X, y: 0.5):
        found = NPSVMClassifierCV(**grid, cv=cv, scoring=scoring).fit(X, y, sample_weight=np.ones(60))
        search = GridSearchCV(NPSVMClassifier(), plain, cv=cv, scoring=scoring).fit(X, y)
        assert found.cv_results_["mean_test_score"] == pytest.approx(search.cv_results_["mean_test_score"])
    # weights: a fold typed out
    found = NPSVMClassifierCV(**grid, cv=cv).fit(X, y, sample_weight=weight)
    train, test = next(iter(cv.split(X, y)))
    model = NPSVMClassifier(load("hnpsvm")(C2=10.0)).fit(X[train], y[train], sample_weight=weight[train])
    wanted = np.average(model.predict(X[test]) == y[test], weights=weight[test])
    assert found.cv_results_["split0_test_score"][1] == pytest.approx(wanted)


def test_without_a_refit_there_is_a_choice_and_no_prediction():
    X, y = sample(2)
    found = NPSVMClassifierCV(C1s=[1.0], C2s=[0.1, 10.0], refit=False).fit(X, y)
    assert found.best_params_["formulation__C2"] in (0.1, 10.0)
    assert found.n_splits_ == 5
    with pytest.raises(NotFittedError):
        found.predict(X)
    again = found.set_params(refit=True).fit(X, y)
    assert again.predict(X).shape == (60,)
    with pytest.raises(NotFittedError):  # and a fit without it takes an old one's planes away
        again.set_params(refit=False).fit(X, y).predict(X)


def test_the_default_grid_is_every_second_of_the_papers_powers():
    assert POWERS[0] == 2.0**-8
    assert POWERS[-1] == 2.0**8
    assert np.allclose(np.diff(np.log2(POWERS)), 2)
    X, y = sample(2, n=40)
    assert len(NPSVMClassifierCV(cv=2).fit(X, y).cv_results_["params"]) == 81
    assert len(NPSVMClassifierCV("twsvm", cv=2).fit(X, y).cv_results_["params"]) == 9


def test_a_class_that_a_fold_lacks():
    X, y = sample(3, n=30)
    folds = PredefinedSplit(np.where(y == 2, 0, np.arange(30) % 2))  # all of class 2 in the first fold
    found = NPSVMClassifierCV(C1s=[1.0], C2s=[1.0], cv=folds).fit(X, y)
    train, test = next(iter(folds.split()))
    alone = NPSVMClassifier(load("hnpsvm")()).fit(X[train], y[train])
    assert alone.classes_.tolist() == [0, 1]
    assert found.cv_results_["split0_test_score"][0] == np.mean(alone.predict(X[test]) == y[test])
    assert found.classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="at least 2 classes"):
        NPSVMClassifierCV(cv=PredefinedSplit(y[y < 2])).fit(X[y < 2], y[y < 2])
    with pytest.raises(ValueError, match="n_splits=5 cannot be greater"):
        NPSVMClassifierCV().fit(X[:8], [0] * 4 + [1] * 4)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C1s": [1.0, -1.0]}, "C1s must be a sequence of positive"),
        ({"C2s": [np.nan]}, "C2s must be a sequence of positive"),
        ({"C2s": 3.0}, "'C2s' parameter of NPSVMClassifierCV"),
        ({"formulation": "twsvm", "C1s": [1.0]}, "TWSVM has no hyperparameter C1"),
        ({"grid": {"kernel": ["rbf"]}}, "grid: 'kernel' cannot be searched here; use GridSearchCV"),
        ({"grid": {"formulation__C1": [1.0]}}, "grid: 'formulation__C1' cannot be searched here; use C1s or C2s"),
        ({"grid": {"cv": [2, 3]}}, "grid: 'cv' cannot be searched here"),
        ({"grid": {"gamma": 1.0}}, "grid=.* must map parameters to sequences"),
        ({"grid": {"gama": [1.0]}}, "Invalid parameter 'gama'"),
        ({"cv": 1}, "cv|k-fold|n_splits"),
        ({"scoring": "acc"}, "'acc'"),
        ({"refit": 2}, "'refit' parameter"),
        ({"scoring": "neg_log_loss"}, "scoring='neg_log_loss' asks for predict_proba, which the classifier"),
        ({"scoring": f1_score}, "looks like it is a metric function"),
        ({"scoring": lambda e, X, y: e.planes_.sum()}, "asks for more than predict and decision_function"),
        ({"grid": []}, "grid=.* must map parameters"),
        ({"grid": {1: [2]}}, "grid=.* must map parameters"),
        ({"cv": []}, "cv=.* yields no split"),
        ({"kernel": "rbf", "gamma": -1.0}, "'gamma' parameter"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    X, y = sample(2, n=20)
    with pytest.raises(ValueError, match=message):
        NPSVMClassifierCV(**parameters).fit(X, y)


def test_frames_pipelines_clones_and_pickles():
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = NPSVMClassifierCV(kernel="rbf", C1s=[0.1, 1.0], C2s=[1.0], cv=3)
    pipe = make_pipeline(StandardScaler().set_output(transform="pandas"), clone(model)).fit(X, y)
    assert pipe[-1].feature_names_in_.tolist() == X.columns.tolist()
    assert pipe.score(X, y) > 0.95
    again = pickle.loads(pickle.dumps(pipe))
    assert (again.decision_function(X) == pipe.decision_function(X)).all()
    assert isinstance(pd.DataFrame(pipe[-1].cv_results_), pd.DataFrame)
    assert clone(pipe[-1]).get_params()["C1s"] == [0.1, 1.0]


def test_splitters_that_need_groups_get_them():
    X, y = sample(2)
    groups = np.arange(60) % 5
    found = NPSVMClassifierCV(C1s=[1.0], C2s=[1.0], cv=GroupKFold(5)).fit(X, y, groups=groups)
    for fold in range(5):
        test = groups == fold
        alone = NPSVMClassifier().fit(X[~test], y[~test])
        scores = [found.cv_results_[f"split{k}_test_score"][0] for k in range(5)]
        assert pytest.approx(alone.score(X[test], y[test])) in scores


def test_nothing_of_an_earlier_fit_is_left():
    X, y = sample(2)
    model = NPSVMClassifierCV(C1s=[1.0], C2s=[1.0], cv=2).fit(X, y)
    model.set_params(refit=False).fit(*sample(3))
    assert not {"classes_", "certificate_", "planes_", "dual_coef_", "formulation_"} & set(vars(model))


def test_jobs_change_nothing():
    X, y = sample()
    model = NPSVMClassifierCV(C1s=C1S, C2s=C2S, cv=3, random_state=0)
    one, two = clone(model).fit(X, y), clone(model).set_params(n_jobs=2).fit(X, y)
    with joblib.parallel_config("threading", n_jobs=2):
        threads = clone(model).fit(X, y)
    for other in (two, threads):
        assert (one.cv_results_["mean_test_score"] == other.cv_results_["mean_test_score"]).all()
        assert (one.planes_ == other.planes_).all()
