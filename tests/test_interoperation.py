"""Inside other people's code: searches, wrappers, calibration, saved models, and workers elsewhere."""

import warnings

import joblib
import numpy as np
import pytest
from scipy.stats import loguniform
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - what makes the next import possible
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, RandomizedSearchCV, cross_val_score
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from npsvm_cvx import GEPSVM, NPSVMClassifier, NPSVMClassifierCV, load


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def test_a_randomised_search_draws_hyperparameters_of_a_name_and_of_an_object(iris):
    for given in ("hnpsvm", load("hnpsvm")()):
        drawn = {"formulation__C1": loguniform(2**-8, 2**8), "formulation__C2": loguniform(2**-8, 2**8)}
        search = RandomizedSearchCV(
            NPSVMClassifier(given, kernel="rbf"), drawn, n_iter=6, cv=3, random_state=0, error_score="raise"
        ).fit(*iris)
        values = {params["formulation__C1"] for params in search.cv_results_["params"]}
        assert len(values) == 6
        assert search.best_estimator_.formulation_.C1 in values
        assert search.best_score_ > 0.8


def test_a_halving_search_goes_on_with_the_better_half(iris):
    search = HalvingGridSearchCV(
        NPSVMClassifier("ls_twsvm", kernel="rbf"),
        {"formulation__C1": [0.01, 1.0, 100.0], "formulation__C2": [0.01, 1.0]},
        cv=3,
        factor=2,
        random_state=0,
        error_score="raise",
    ).fit(*iris)
    assert search.n_candidates_ == [6, 3, 2][: len(search.n_candidates_)]
    assert search.n_resources_[-1] > search.n_resources_[0]
    fitted = search.best_estimator_.formulation_.get_params()
    assert fitted == {name.removeprefix("formulation__"): value for name, value in search.best_params_.items()}
    assert search.score(*iris) > 0.9


def test_one_against_the_rest_is_the_papers_other_extension_of_twsvm(iris):
    # "1-v-r TWSVM": for each class a two-class machine against all others, whose score decides
    X, y = iris
    model = OneVsRestClassifier(NPSVMClassifier("twsvm", kernel="rbf")).fit(X, y)
    scores = []
    for k in range(3):
        one = NPSVMClassifier("twsvm", kernel="rbf").fit(X, (y == k).astype(int))
        scores.append(one.decision_function(X))
    assert (model.predict(X) == np.argmax(scores, axis=0)).all()
    assert model.score(X, y) > 0.93


def test_one_against_one_votes(iris):
    X, y = iris
    model = OneVsOneClassifier(NPSVMClassifier("tbsvm", kernel="rbf")).fit(X, y)
    votes = np.zeros((len(X), 3))
    for i, j in ((0, 1), (0, 2), (1, 2)):
        two = (y == i) | (y == j)
        found = NPSVMClassifier("tbsvm", kernel="rbf").fit(X[two], y[two]).predict(X)
        votes[np.arange(len(X)), found] += 1
    clear = np.sort(votes, axis=1)[:, -1] == 2  # else the scores settle it
    assert clear.mean() > 0.95
    assert (model.predict(X)[clear] == votes.argmax(axis=1)[clear]).all()


def test_probabilities_by_calibration(iris):
    X, y = iris
    model = CalibratedClassifierCV(NPSVMClassifier("hnpsvm", kernel="rbf"), cv=3).fit(X, y)
    shares = model.predict_proba(X)
    assert shares.sum(axis=1) == pytest.approx(1.0)
    assert (shares.argmax(axis=1) == y).mean() > 0.93
    # of two classes, the score's sign is what is calibrated
    two = y > 0
    model = CalibratedClassifierCV(NPSVMClassifier("hnpsvm", kernel="rbf"), method="isotonic", cv=3).fit(X[two], y[two])
    assert model.score(X[two], y[two]) > 0.9


def test_in_ensembles_and_inspection(iris):
    X, y = iris
    members = [("near", NPSVMClassifier("twsvm", kernel="rbf")), ("far", NPSVMClassifier("hnpsvm", kernel="rbf"))]
    assert VotingClassifier(members).fit(X, y).score(X, y) > 0.93
    assert StackingClassifier(members, cv=3).fit(X, y).score(X, y) > 0.93
    model = NPSVMClassifier("hnpsvm", kernel="rbf").fit(X, y)
    found = permutation_importance(model, X, y, n_repeats=3, random_state=0)
    assert found.importances_mean.argmax() in (2, 3)  # the petals


def test_sparse_text_like_samples_in_a_pipeline():
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = {"sea": ["wave", "salt", "boat"], "hill": ["rock", "snow", "goat"]}
    rng = np.random.default_rng(0)
    labels = rng.choice(sorted(words), 80)
    texts = [" ".join([*rng.choice(words[label], 3), *rng.choice(["the", "a", "of"], 4)]) for label in labels]
    model = make_pipeline(TfidfVectorizer(token_pattern=r"\w+"), MaxAbsScaler(), NPSVMClassifier("hnpsvm"))
    assert cross_val_score(model, texts, labels, cv=4).mean() == 1.0
    assert model.fit(texts, labels)[-1].certificate_[0]["rigorous"]


MODELS = [
    NPSVMClassifier("hnpsvm", kernel="rbf"),
    NPSVMClassifier(load("nppc")(d=0.3)),
    NPSVMClassifier(load("pinball")(tau=0.25), scheme="nearest", kernel="poly", landmarks=20, random_state=0),
    NPSVMClassifier("l1_ls_twsvm"),
    NPSVMClassifierCV(kernel="rbf", C1s=[1.0], C2s=[0.5, 2.0], grid={"gamma": [0.1, 1.0]}, cv=2),
    GEPSVM(kernel="rbf"),
]


@pytest.mark.parametrize(
    "model", MODELS, ids=lambda model: f"{type(model).__name__}-{getattr(model, 'formulation', '')}"
)
def test_skops_round_trips(model, iris):
    from skops import io

    X, y = iris
    some = y < 2 if isinstance(model, GEPSVM) else y < 3
    model.fit(X[some], y[some])
    saved = io.dumps(model)
    types = io.get_untrusted_types(data=saved)
    assert all(name.startswith("npsvm_cvx.") for name in types), types  # all else is trusted as it is
    again = io.loads(saved, trusted=types)
    assert (again.decision_function(X) == model.decision_function(X)).all()
    assert again.get_params().keys() == model.get_params().keys()
    assert str(getattr(again, "formulation_", None)) == str(getattr(model, "formulation_", None))
    for name in ("certificate_", "n_iter_", "best_params_"):
        assert getattr(again, name, None) == getattr(model, name, None)
    again.fit(X[some], y[some])  # and what is loaded can be fitted again: the same formulation at the same setting
    assert again.decision_function(X) == pytest.approx(model.decision_function(X), abs=1e-4)


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the cluster's own: ports, file descriptors, event loops
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as workers,
            distributed.Client(workers) as client,
        ):
            yield client


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_dask_cluster_computes_the_same(cluster, iris):
    X, y = iris
    grid = {"formulation": ["hnpsvm", "ls_twsvm"], "formulation__C2": [0.5, 2.0]}
    search = GridSearchCV(NPSVMClassifier(kernel="rbf", random_state=0), grid, cv=3, error_score="raise")
    chosen = NPSVMClassifierCV(kernel="rbf", C1s=[0.5, 2.0], C2s=[0.5, 2.0], cv=3, random_state=0)
    classes = NPSVMClassifier(kernel="rbf", n_jobs=2, random_state=0)
    here = [search.fit(X, y).cv_results_, chosen.fit(X, y).cv_results_]
    planes = classes.fit(X, y).planes_
    with joblib.parallel_config("dask"):
        there = [search.fit(X, y).cv_results_, chosen.fit(X, y).cv_results_]
        assert classes.fit(X, y).planes_ == pytest.approx(planes, abs=1e-10)
    for one, other in zip(here, there, strict=True):
        assert one["mean_test_score"] == pytest.approx(other["mean_test_score"], abs=1e-12)
    ran = cluster.run(lambda: "npsvm_cvx" in __import__("sys").modules)  # the workers' own word
    assert len(ran) == 2
    assert all(ran.values())
