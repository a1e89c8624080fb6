"""Rows, kernels, schemes, distances and decisions."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, laplacian_kernel, polynomial_kernel, rbf_kernel

from npsvm_cvx.errors import NPSVMError
from npsvm_cvx.planes import Rows, ZeroNormalWarning, class_matrices, decide, distances, scale_gamma

X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [3.0, 1.0]])


def test_linear_rows_end_in_ones():
    np.testing.assert_array_equal(Rows()(X), np.column_stack([X, np.ones(4)]))
    np.testing.assert_array_equal(Rows()(X.tolist()), Rows()(X.astype(np.float32)))


def test_kernel_rows_are_scikit_learns():
    # another implementation
    for name, reference, parameters in (
        ("rbf", rbf_kernel, {"gamma": 0.7}),
        ("laplacian", laplacian_kernel, {"gamma": 0.7}),
        ("polynomial", polynomial_kernel, {"gamma": 0.5, "degree": 2, "coef0": 1.0}),
    ):
        rows = Rows.of(name, X, **{"gamma": None, "degree": 3, "coef0": 0.0, **parameters})
        kept = {**parameters} if name == "polynomial" else {"gamma": parameters["gamma"]}
        np.testing.assert_allclose(rows(X[:3]), np.column_stack([reference(X[:3], X, **kept), np.ones(3)]))


def test_the_rbf_kernel_has_a_diagonal_of_ones():
    gram = Rows.of("rbf", X, gamma=2.0)(X)[:, :-1]
    np.testing.assert_allclose(np.diag(gram), 1.0)
    assert gram[0, 1] == pytest.approx(np.exp(-2.0))  # |x - y| = 1
    np.testing.assert_array_equal(gram, gram.T)


def test_a_rectangular_kernel_has_a_column_a_centre():
    rows = Rows.of("rbf", X[[0, 3]], gamma=1.0)
    assert rows(X).shape == (4, 3)
    full = Rows.of("rbf", X, gamma=1.0)(X)
    np.testing.assert_allclose(rows(X), full[:, [0, 3, 4]])


def test_every_pairwise_kernel_of_scikit_learn_is_allowed():
    for name in PAIRWISE_KERNEL_FUNCTIONS:
        rows = Rows.of(name, np.abs(X) + 1, gamma=0.1)(np.abs(X) + 1)
        assert rows.shape == (4, 3 if name == "linear" else 5)


def test_centres_are_copied():
    centres = X.copy()
    rows = Rows.of("rbf", centres, gamma=1.0)
    before = rows(X)
    centres[:] = 99.0
    np.testing.assert_array_equal(rows(X), before)


def test_kernel_errors_name_the_argument():
    with pytest.raises(NPSVMError, match=r"kernel='rbff' is not known; did you mean 'rbf'\?"):
        Rows.of("rbff", X)
    for gamma in (0.0, -1.0):
        with pytest.raises(NPSVMError, match=r"gamma=.* must be"):
            Rows.of("rbf", X, gamma=gamma)


def test_scale_gamma_is_scikit_learns_and_survives_a_constant():
    assert scale_gamma(X) == pytest.approx(1 / (2 * X.var()))
    assert scale_gamma(np.ones((3, 2))) == 1.0


def test_schemes():
    rows, y = Rows()(X), np.array(["a", "b", "a", "c"])
    S, R = class_matrices(rows, y, "a", "farthest")
    np.testing.assert_array_equal(R, rows[[0, 2]])
    np.testing.assert_array_equal(S, rows[[1, 3]])
    S, R = class_matrices(rows, y, "a", "nearest")
    np.testing.assert_array_equal(S, rows[[0, 2]])
    np.testing.assert_array_equal(R, -rows[[1, 3]])
    with pytest.raises(NPSVMError, match=r"scheme='farest' is not known; did you mean 'farthest'\?"):
        class_matrices(rows, y, "a", "farest")


def test_matrices_of_all_classes_cover_the_rows_once():
    rows, y = Rows()(X), [1, 2, 2, 3]
    assert sum(len(class_matrices(rows, y, k, "farthest")[1]) for k in (1, 2, 3)) == 4
    assert sum(len(class_matrices(rows, y, k, "nearest")[0]) for k in (1, 2, 3)) == 4


def test_distances_and_ties():
    rows, planes = Rows()([[1.5], [2.0], [1.0]]), np.array([[1.0, 0.0], [2.0, -6.0], [-1.0, 0.0]])
    raw = distances(rows, planes)
    np.testing.assert_array_equal(raw[:, 0], raw[:, 2])  # absolute: a plane and its negative
    assert decide(raw, "nearest").tolist() == [0, 0, 0]
    assert decide(raw, "farthest").tolist() == [1, 0, 1]  # a tie at 2 goes to the first
    # one plane alone may be given as a vector
    np.testing.assert_array_equal(distances(rows, planes[0]), raw[:, :1])


def test_euclidean_distance_does_not_see_a_planes_scale():
    rng = np.random.default_rng(0)
    rows, planes = Rows()(rng.normal(size=(9, 3))), rng.normal(size=(4, 4))
    scale = np.array([[1.0], [-2.0], [1e6], [1e-6]])
    np.testing.assert_allclose(
        distances(rows, scale * planes, Rows().norms(scale * planes)),
        distances(rows, planes, Rows().norms(planes)),
        rtol=1e-9,
    )


def test_a_plane_without_a_normal_is_infinitely_far_and_warned_of_by_name():
    planes = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    with pytest.warns(ZeroNormalWarning, match="1 of 2 planes have w = 0.*distance='absolute'"):
        found = distances(Rows()(X), planes, Rows().norms(planes))
    assert np.isinf(found[:, 0]).all()
    assert np.isfinite(found[:, 1]).all()
    assert (decide(found, "nearest") == 1).all()
    # the absolute rule needs no normal, and warns of nothing
    np.testing.assert_array_equal(distances(Rows()(X), planes)[:, 0], 1.0)


def test_norms_of_kernel_planes_do_not_turn_nan_by_rounding():
    # two equal centres: the Gram matrix is singular and w = (1, -1) has norm zero
    rows = Rows.of("rbf", [[1.0], [1.0]], gamma=1.0)
    assert rows.norms(np.array([1.0, -1.0, 3.0]))[0] == pytest.approx(0.0, abs=1e-7)


def test_rows_are_frozen_and_share_nothing():
    one = Rows()
    with pytest.raises(AttributeError):
        one.kernel = "rbf"
    assert Rows().parameters is not one.parameters
