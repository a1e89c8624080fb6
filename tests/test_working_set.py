"""Large problems by their working sets, and what classes share: the same planes as one by one, proved."""

import numpy as np
import pytest

from npsvm_cvx import NPSVMClassifier, available, load, plane_classifier
from npsvm_cvx.certificate import Proof
from npsvm_cvx.classes import Classes, solve_classes
from npsvm_cvx.compile import compile
from npsvm_cvx.errors import NPSVMError
from npsvm_cvx.forms import BoxQP
from npsvm_cvx.linalg import Factor, RowInverse
from npsvm_cvx.problem import Problem, Stack
from npsvm_cvx.terms import Terms
from npsvm_cvx.working_set import minimise

QUADRATIC = [name for name in available() if isinstance(compile(load(name)()), BoxQP)]


def rows_of(n, d, shift, seed, scale=1.0):
    rng = np.random.default_rng(seed)
    return np.column_stack([(rng.normal(size=(n, d - 1)) + shift) * scale, np.ones(n)])


def made(kind, n=9000, d=20):
    """Return (S, R) of a kind that has been trouble for solvers."""
    S, R = rows_of(n, d, 0.3, 0), rows_of(n, d, 0.0, 1)
    if kind == "dependent features":
        for rows in (S, R):
            rows[:, 3], rows[:, 5] = rows[:, 0] + rows[:, 1], 0.0
    if kind == "every row many times":
        S, R = np.repeat(S[: n // 30], 30, axis=0), np.repeat(R[: n // 30], 30, axis=0)
    if kind == "scales":
        scale = np.append(10.0 ** np.linspace(-4, 4, d - 1), 1.0)
        S, R = S * scale, R * scale
    if kind == "offset":
        S[:, :-1] += 1e4
        R[:, :-1] += 1e4
    if kind == "one sample apart":
        R[0, :-1] = 100.0
    if kind == "separable":
        R[:, :-1] += 20.0
    if kind == "all alike":
        R[:] = R[0]
    return S, R


@pytest.mark.parametrize(("C1", "C2"), [(2.0**-7, 1.0), (1.0, 100.0), (2.0**-8, 2.0**8), (2.0**8, 2.0**-8)])
@pytest.mark.parametrize("name", QUADRATIC)
def test_every_loss_at_the_corners(name, C1, C2):
    S, R = made("plain")
    cls = load(name)
    compiled = compile(cls(C1=C1, C2=C2) if "C1" in cls().get_params() else cls(C2=C2))
    result, z = compiled.solve(S, R, tol=1e-10)
    assert result.status == "converged"
    assert compiled.proof(S, R, z, result.a).check().relative_gap <= 1e-9


@pytest.mark.parametrize("C2", [1.0, 100.0])
@pytest.mark.parametrize(
    "kind",
    [
        "dependent features", "every row many times", "scales", "offset", "one sample apart", "separable", "all alike",
    ],
)  # fmt: skip
def test_what_has_been_trouble(kind, C2):
    S, R = made(kind)
    for name in ("hnpsvm", "smooth_twsvm", "pinball"):
        compiled = compile(load(name)(C1=2.0**-7, C2=C2))
        result, z = compiled.solve(S, R, tol=1e-10)
        proved = compiled.proof(S, R, z, result.a).check()
        assert result.relative_gap <= 1e-10, (name, result.status)
        assert proved.relative_gap <= 1e-9, name


def test_the_working_set_ends_where_all_rows_do():
    S, R = made("plain")
    problem = compile(load("hnpsvm")(C1=0.5, C2=3.0)).problem(S, R)
    some, z = minimise(problem, tol=1e-12)
    everyone, other = minimise(problem, tol=1e-12, start=np.zeros(len(R)))  # a start is for all rows
    assert some.primal == pytest.approx(everyone.primal, rel=1e-11)
    assert z == pytest.approx(other, abs=1e-6 * np.abs(other).max())
    again, same = minimise(problem, tol=1e-12)
    np.testing.assert_array_equal(z, same)
    np.testing.assert_array_equal(some.a, again.a)


def test_weights_and_blocks_are_rows_written_out():
    S, R = rows_of(40, 4, 0.5, 2), rows_of(30, 4, 0.0, 3)
    near, margin = np.array([1.0, 2.0] * 20), np.array([3.0, 1.0, 1.0] * 10)
    compiled = compile(load("hnpsvm")(C1=0.3, C2=0.7))
    weighted = compiled.problem(Stack(S[:11], S[11:]), Stack(R[:1], R[1:7], R[7:]), near=near, margin=margin)
    written = compiled.problem(np.repeat(S, near.astype(int), axis=0), np.repeat(R, margin.astype(int), axis=0))
    (one, z), (other, same) = minimise(weighted, tol=1e-12), minimise(written, tol=1e-12)
    assert one.primal == pytest.approx(other.primal, rel=1e-10)
    assert z == pytest.approx(same, abs=1e-5)
    assert Proof.of(weighted, z, one.a).check().relative_gap < 1e-9


def test_limits_are_kept_and_reported():
    S, R = made("plain")
    compiled = compile(load("hnpsvm")(C1=2.0**-7, C2=1.0))
    result, _ = compiled.solve(S, R, tol=1e-14, max_sweeps=3)
    assert (result.status, result.converged) == ("iteration limit", False)
    assert result.sweeps <= 3
    assert 1e-14 < result.relative_gap < np.inf
    result, z = compiled.solve(S, R, tol=1e-14, time_limit=1e-9)
    assert result.status == "time limit"
    assert np.isfinite(z).all()
    assert result.primal >= compiled.solve(S, R, tol=1e-12)[0].primal * (1 - 1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("which", ["S", "R"])
@pytest.mark.parametrize("n", [20, 9000])
def test_numbers_that_are_none_are_refused(which, bad, n):
    S, R = rows_of(n, 20, 0.3, 0), rows_of(n, 20, 0.0, 1)
    (S if which == "S" else R)[n // 2, 1] = bad
    with pytest.raises(ValueError, match=f"{which} must be finite"):
        minimise(Problem(Stack(S), Stack(R), Terms.of(n, -1.0, 0.0, 0.0, 1.0), np.ones(20)))


# --- what classes share ----------------------------------------------------------------------------------


def test_cholesky_where_it_loses_few_digits_and_qr_where_not():
    S, R = made("plain")
    assert not Factor(S, 1.0).exact
    assert Factor(S[:100], 1.0).exact
    assert Factor(made("dependent features")[0], 1e-9).exact
    for near in (1.0, np.linspace(0.5, 2.0, len(S))):
        weighted = S * np.sqrt(np.broadcast_to(near, (len(S),)))[:, None]
        expected = np.linalg.solve(weighted.T @ weighted + np.eye(20), R[:50].T)
        assert Factor(S, 1.0, near=near).solve(R[:50].T) == pytest.approx(expected, rel=1e-7, abs=1e-12)
        F = Factor(S, 1.0, near=near).whiten(R)
        assert F[:50] @ F[:50].T == pytest.approx(R[:50] @ expected, rel=1e-7, abs=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_one_inverse_serves_every_class(weighted):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 61))
    ridge = rng.uniform(0.5, 2.0, size=61) if weighted else np.full(61, 0.7)
    near = rng.uniform(0.5, 2.0, size=60) if weighted else np.ones(60)
    shared = RowInverse(X, ridge, near)
    for own in (slice(0, 20), slice(20, 55), slice(55, 60)):
        others = np.delete(np.arange(60), np.arange(60)[own])
        metric = (X[others].T * near[others]) @ X[others] + np.diag(ridge)
        factor, r = shared.of(own), rng.normal(size=61)
        assert factor.solve(r) == pytest.approx(np.linalg.solve(metric, r), rel=1e-8, abs=1e-10)
        F = factor.whiten(X[own])
        assert pytest.approx(X[own] @ np.linalg.solve(metric, X[own].T), rel=1e-6, abs=1e-8) == F @ F.T
    with pytest.raises(NPSVMError, match="positive"):
        RowInverse(X, np.zeros(61))
    with pytest.raises(NPSVMError, match="ill-conditioned"):
        RowInverse(1e9 * np.repeat(X[:30], 2, axis=0), ridge)


@pytest.mark.parametrize("scheme", ["farthest", "nearest"])
@pytest.mark.parametrize("name", ["hnpsvm", "smooth_twsvm", "absolute", "ls_twsvm"])
@pytest.mark.parametrize(("C1", "C2"), [(1.0, 1.0), (2.0**-8, 2.0**8)])
def test_the_full_kernel_with_what_classes_share(name, scheme, C1, C2):
    rng = np.random.default_rng(5)
    n = 420  # as many as share an inverse
    y = np.sort(np.arange(n) % (3 if scheme == "farthest" else 2))
    X = rng.normal(size=(n, 3)) + y[:, None]
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    rows = np.column_stack([K, np.ones(n)])
    weights = rng.uniform(0.5, 2.0, size=n)
    classes = Classes(rows, np.cumsum(np.bincount(y)), scheme, weights, np.ones(n + 1))
    compiled = compile(load(name)(C1=C1, C2=C2))
    for k, each in enumerate(solve_classes(compiled, classes, tol=1e-10)):
        alone, z = minimise(classes.problem(compiled, k), tol=1e-10)
        assert each.result.converged
        assert each.result.primal == pytest.approx(alone.primal, rel=1e-9)
        assert each.plane == pytest.approx(classes.sign * z, abs=1e-3 * np.abs(z).max())


def test_two_threads_find_the_same_planes():
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(9000, 19)), np.arange(9000) % 3
    X += 0.4 * y[:, None]
    one, two = (NPSVMClassifier(n_jobs=n, random_state=0).fit(X, y) for n in (None, 2))
    np.testing.assert_allclose(one.planes_, two.planes_, rtol=1e-9, atol=1e-12)
    assert all(c["rigorous"] and c["relative_gap"] < 1e-8 for c in two.certificate_)


@pytest.mark.filterwarnings("ignore::npsvm_cvx.planes.ZeroNormalWarning")  # w = 0 is optimal there
@pytest.mark.parametrize("scheme", ["farthest", "nearest"])
def test_large_sets_with_weights(scheme):
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(9000, 19)), np.where(np.arange(9000) % 10 == 0, "few", "many")
    X += 0.4 * (y == "few")[:, None]
    weights = rng.integers(1, 3, size=9000)
    options = {"scheme": scheme, "distance": "absolute", "tol": 1e-11, "random_state": 0}
    by_weight = NPSVMClassifier(**options).fit(X, y, sample_weight=weights)
    written = NPSVMClassifier(**options).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    for one, other in zip(by_weight.certificate_, written.certificate_, strict=True):
        assert one["primal"] == pytest.approx(other["primal"], rel=1e-9)
        assert one["relative_gap"] <= 1e-9


def test_a_kernel_that_memory_cannot_hold_is_refused_before_it_is_built(monkeypatch):
    X, y = np.random.default_rng(8).normal(size=(300, 2)), np.arange(300) % 2
    monkeypatch.setattr(plane_classifier, "available_memory", lambda: 1e6)
    with pytest.raises(MemoryError, match=r"300 samples and 300 centres need about .*landmarks=10 needs"):
        NPSVMClassifier(kernel="rbf").fit(X, y)
    monkeypatch.setattr(NPSVMClassifier, "_rows", lambda *_: pytest.fail("it was built"))
    with pytest.raises(MemoryError):
        NPSVMClassifier(kernel="rbf").fit(X, y)
    assert plane_classifier.available_memory() == 1e6


def test_the_memory_that_is_available_is_found():
    assert plane_classifier.available_memory() > 1e6


def test_memory_is_what_machine_process_and_container_leave(monkeypatch):
    parts = {"_of_the_machine": 3e9, "_of_the_process": 2e9, "_of_the_container": 5e9}
    for name, value in parts.items():
        monkeypatch.setattr(plane_classifier, name, lambda value=value: value)
    assert plane_classifier.available_memory() == 2e9


def test_a_ridge_lost_beside_the_rows_is_said_to_be():
    with pytest.raises(NPSVMError, match=r"rank 1 of 2 .* ridge is 256; its entries reach .* scale the features"):
        Factor(np.full((3, 2), 1e18), 256.0)
    with pytest.raises(NPSVMError, match="use a larger ridge"):
        Factor(np.full((3, 2), 1.0), 0.0)


@pytest.mark.filterwarnings("ignore::npsvm_cvx.planes.ZeroNormalWarning")  # w = 0 is optimal there
def test_a_proof_that_rounding_keeps_far_from_tol_is_a_warning():
    from sklearn.exceptions import ConvergenceWarning

    rng = np.random.default_rng(10)
    X, y = rng.normal(size=(60, 3)) + 1e5, np.arange(60) % 2
    model = NPSVMClassifier(load("absolute")(C1=1.0, C2=1e12), tol=1e-8)
    with pytest.warns(ConvergenceWarning, match="only .* is proved|relative duality gap"):
        model.fit(X, y)
    for statement in model.certificate_:
        assert statement["dual"] == statement["primal"] - statement["gap"]


def test_weights_beyond_squares_are_refused():
    X, y = np.random.default_rng(11).normal(size=(10, 2)), np.arange(10) % 2
    with pytest.raises(ValueError, match=r"sample_weight must be zero or between 1e-100 and 1e\+100"):
        NPSVMClassifier().fit(X, y, sample_weight=np.full(10, 1e300))


@pytest.mark.parametrize("name", ["pinball", "absolute", "hnpsvm"])
def test_many_margin_rows_beside_few_near_ones(name):
    S, R = rows_of(15, 21, 0.0, 12), rows_of(6000, 21, 0.0, 13)
    compiled = compile(load(name)(C1=2.0**-8, C2=2.0**8))
    result, z = compiled.solve(S, R, tol=1e-10)
    assert result.converged
    assert compiled.proof(S, R, z, result.a).check().relative_gap <= 1e-9
