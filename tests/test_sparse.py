"""Sparse samples give the planes of the same samples written out, and are not written out on the way."""

import numpy as np
import pytest
import scipy.sparse as sp

from npsvm_cvx import NPSVMClassifier, available, load, plane_classifier
from npsvm_cvx.certificate import certify
from npsvm_cvx.linalg import Factor, RowInverse
from npsvm_cvx.problem import Stack, span_of
from npsvm_cvx.selection import npsvm_path
from npsvm_cvx.terms import Terms

LINEAR_PROGRAM = "l1_ls_twsvm"


def sample(n, d, density, classes=3, seed=0):
    """Return mostly zeros, with a feature that each class has more of."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    own = sp.csr_array((np.full(n, 0.5), (np.arange(n), y)), shape=(n, d))
    X = sp.random_array((n, d), density=density, rng=rng, format="csr")
    return sp.csr_array(X + own), y


# --- rows ------------------------------------------------------------------------------------------------


def stacks():
    X, _ = sample(40, 7, 0.4)
    parts = [X[:13], X[13:13], X[13:]]
    return Stack(*parts), Stack(*(part.toarray() for part in parts))


def test_a_stack_of_sparse_rows_is_the_stack_of_the_same_rows():
    one, two = stacks()
    rng = np.random.default_rng(1)
    z, a, weights, index = (
        rng.normal(size=7),
        rng.normal(size=40),
        rng.uniform(0.1, 2, 40),
        np.array([0, 5, 12, 13, 39]),
    )
    assert (len(one), one.shape, one.sparse, two.sparse) == (40, (40, 7), True, False)
    assert one.product(z) == pytest.approx(two.product(z), abs=1e-14)
    assert one.adjoint(a) == pytest.approx(two.adjoint(a), abs=1e-14)
    assert sp.issparse(one.take(index))
    assert (one.take(index).toarray() == two.take(index)).all()
    for weight in (1.0, 3.0, weights):
        assert one.gram(weight) == pytest.approx(two.gram(weight), abs=1e-13)
    assert (one.dense() == two.dense()).all()
    for dense in (False, True):
        spans, parts = zip(*one.chunks(21, dense=dense), strict=True)
        assert len(parts) > 2
        assert [part.shape[0] for part in parts] == [span.stop - span.start for span in spans]
        assert all(sp.issparse(part) != dense for part in parts)
        assert (np.vstack([part if dense else part.toarray() for part in parts]) == two.dense()).all()
    assert one.finite()
    one.blocks[0].data[3] = np.nan
    assert not one.finite()


def test_a_span_of_sparse_rows_shares_their_memory():
    X, _ = sample(30, 5, 0.5)
    part = span_of(X, slice(4, 11))
    assert (part.toarray() == X[4:11].toarray()).all()
    assert np.shares_memory(part.data, X.data)
    assert np.shares_memory(part.indices, X.indices)
    assert span_of(X, slice(25, 99)).shape == (5, 5)


def test_factors_of_sparse_rows_are_the_factors_of_the_same_rows():
    one, two = stacks()
    ridge, near = np.linspace(0.5, 2, 7), np.linspace(0.1, 3, 40)
    sparse, plain = Factor(one, ridge, near=near), Factor(two, ridge, near=near)
    assert np.abs(sparse.U) == pytest.approx(np.abs(plain.U), abs=1e-13)
    X = one.dense()
    assert sparse.whiten(sp.csr_array(X)) == pytest.approx(sparse.whiten(X), abs=1e-14)
    for c in (ridge, np.ones(7)):
        from_sparse, from_plain = RowInverse(sp.csr_array(X), c, near), RowInverse(X, c, near)
        assert np.allclose(from_sparse.T, from_plain.T, rtol=0, atol=1e-12)
        r, J = np.arange(7.0), slice(3, 9)
        assert from_sparse.of(J).solve(r) == pytest.approx(from_plain.of(J).solve(r), abs=1e-12)


def test_a_certificate_reads_sparse_rows():
    X, y = sample(300, 20, 0.2, classes=2)
    rows = sp.hstack([X, np.ones((300, 1))], format="csr")
    S, R = rows[y == 0], rows[y == 1]
    solved = NPSVMClassifier(load("hnpsvm")(C2=0.3), tol=1e-10).fit(X, y)
    z, a = solved.planes_[1], solved.dual_coef_[1, y == 1]
    terms = Terms.of(len(a), -1.0, 0.0, 0.0, 0.3)
    sparse = certify(S, R, z, a, terms, ridge=1.0)
    plain = certify(S.toarray(), R.toarray(), z, a, terms, ridge=1.0)
    assert 0 < sparse.relative_gap < 1e-9
    assert sparse.gap == pytest.approx(plain.gap, rel=0.5, abs=1e-14)
    assert sparse.value == pytest.approx(plain.value, rel=1e-12)
    # another plane than the optimal one: the bound is of the size of what the plane loses, and not below it
    off = certify(S, R, 1.1 * z, a, terms, ridge=1.0)
    worse = 0.5 * np.sum((S @ (1.1 * z)) ** 2) + 0.5 * 1.21 * z @ z + 0.3 * np.maximum(0, 1 - R @ (1.1 * z)).sum()
    assert off.gap >= (worse - sparse.value) * (1 - 1e-9)


# --- the classifier --------------------------------------------------------------------------------------

SHAPES = {"few features": (90, 6, 0.5), "more features than samples": (60, 150, 0.1), "many rows": (4000, 40, 0.1)}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scheme", ["farthest", "nearest"])
@pytest.mark.parametrize("name", available())
def test_sparse_planes_are_the_planes_of_the_samples_written_out(name, scheme, shape):
    X, y = sample(*SHAPES[shape])
    weight = np.random.default_rng(2).uniform(0.5, 2.0, len(y))
    make = {"scheme": scheme, "distance": "absolute", "tol": 1e-10, "random_state": 0}
    sparse = NPSVMClassifier(name, **make).fit(X, y, sample_weight=weight)
    plain = NPSVMClassifier(name, **make).fit(X.toarray(), y, sample_weight=weight)
    tolerance = 1e-5 if name == LINEAR_PROGRAM else 1e-6
    size = np.abs(plain.planes_).max()
    assert np.abs(sparse.planes_ - plain.planes_).max() <= tolerance * size
    assert sparse.decision_function(X) == pytest.approx(plain.decision_function(X.toarray()), abs=20 * tolerance)
    for one, other in zip(sparse.certificate_, plain.certificate_, strict=True):
        assert one["rigorous"]
        assert one["primal"] == pytest.approx(other["primal"], rel=1e-8)


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csr_array, sp.csc_array, sp.coo_array, sp.lil_array])
def test_any_sparse_format_and_integer_entries(make):
    X, y = sample(40, 5, 0.5)
    whole = np.rint(4 * X.toarray()).astype(np.int64)
    sparse, plain = NPSVMClassifier().fit(make(whole), y), NPSVMClassifier().fit(whole, y)
    assert sparse.planes_ == pytest.approx(plain.planes_, abs=1e-9)
    assert (sparse.predict(make(whole)) == plain.predict(whole)).all()
    assert (sparse.predict(whole) == plain.predict(whole)).all()  # plain samples of a sparse fit


@pytest.mark.parametrize("name", ["hnpsvm", "ls_twsvm", LINEAR_PROGRAM])
def test_entries_given_twice_and_out_of_order_are_their_sum(name):
    # CSR as one may build it by hand: the array is not put in order where others see it, and the sum is what counts
    X, y = sample(60, 8, 0.3)
    rng = np.random.default_rng(3)
    whole = sp.csr_array(X)
    row, column = whole.nonzero()
    order = np.lexsort((rng.random(2 * len(row)), np.r_[row, row]))
    data = np.r_[0.25 * whole.data, 0.75 * whole.data][order]
    twice = sp.csr_array((data, np.r_[column, column][order], 2 * whole.indptr), shape=X.shape)
    assert not twice.has_canonical_format
    before = twice.data.copy(), twice.indices.copy()
    one, other = NPSVMClassifier(name).fit(twice, y), NPSVMClassifier(name).fit(X.toarray(), y)
    assert one.planes_ == pytest.approx(other.planes_, abs=1e-6)
    assert one.decision_function(twice) == pytest.approx(other.decision_function(X.toarray()), abs=1e-6)
    assert (twice.data == before[0]).all()
    assert (twice.indices == before[1]).all()
    z = rng.normal(size=8)
    assert Stack(twice).product(z) == pytest.approx(X @ z, abs=1e-12)
    assert Stack(twice).gram() == pytest.approx((X.T @ X).toarray(), abs=1e-12)


def test_rows_are_not_written_out(monkeypatch):
    # 20,000 x 300 would be 6 million entries; what is made plain is a few thousand rows at most
    X, y = sample(20_000, 300, 0.02, classes=2)
    plain, toarray = [], sp.csr_array.toarray
    monkeypatch.setattr(
        sp.csr_array, "toarray", lambda self, *a, **k: plain.append(self.shape) or toarray(self, *a, **k)
    )
    for name in ("hnpsvm", "ls_twsvm", "smooth_twsvm", LINEAR_PROGRAM):
        model = NPSVMClassifier(name).fit(X, y)
        assert max(c["relative_gap"] for c in model.certificate_) < 1e-7
        model.predict(X)
    assert all(rows <= 6000 for rows, _ in plain), sorted(plain)[-3:]  # 5 % of a class, or ten times the features


def test_more_features_than_a_metric_has_room_for_are_fine_where_classes_share_an_inverse():
    # a metric of 10,001 x 10,001 entries would be 0.8 GB, and three of them
    X, y = sample(120, 10_000, 0.005)
    model = NPSVMClassifier("hnpsvm").fit(X, y)
    assert model.score(X, y) == 1.0
    assert max(c["relative_gap"] for c in model.certificate_) < 1e-8


def test_too_many_features_are_refused_before_anything_is_built(monkeypatch):
    X, y = sample(200, 3000, 0.01)
    monkeypatch.setattr("npsvm_cvx.estimator.available_memory", lambda: 5e8)
    with pytest.raises(MemoryError, match=r"3000 sparse features need matrices of about 1\.2 GB.*TruncatedSVD"):
        NPSVMClassifier("twsvm").fit(X, y)  # nearest, three classes: every plane has a metric of its own
    NPSVMClassifier("hnpsvm").fit(X, y)
    monkeypatch.setattr("npsvm_cvx.estimator.available_memory", lambda: 1e5)
    with pytest.raises(MemoryError, match="200 sparse samples need"):
        NPSVMClassifier("hnpsvm").fit(X, y)


def test_what_needs_plain_rows_says_so():
    X, y = sample(30, 4, 0.5)
    with pytest.raises(TypeError, match="dense data is required"):
        NPSVMClassifier(kernel="rbf").fit(X, y)
    with pytest.raises(TypeError, match=r"X is sparse, and solver='clarabel' needs plain rows; use X\.toarray\(\)"):
        NPSVMClassifier(solver="clarabel").fit(X, y)
    X.data[0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        NPSVMClassifier().fit(X, y)


def test_prediction_in_blocks(monkeypatch):
    X, y = sample(50, 6, 0.4)
    model = NPSVMClassifier().fit(X, y)
    whole = model.decision_function(X)
    monkeypatch.setattr(plane_classifier, "_BLOCK", 35)
    assert model.decision_function(X) == pytest.approx(whole, abs=1e-14)


@pytest.mark.parametrize("shape", ["few features", "many rows"])
def test_the_path_takes_sparse_samples(shape):
    X, y = sample(*SHAPES[shape])
    sparse = npsvm_path(X, y, C1s=[0.5, 2.0], C2s=[0.1, 1.0])
    plain = npsvm_path(X.toarray(), y, C1s=[0.5, 2.0], C2s=[0.1, 1.0])
    assert np.abs(sparse.planes - plain.planes).max() <= 1e-4 * np.abs(plain.planes).max()
