"""The interior-point method alone: vertices of HiGHS, degenerate programs, rows held and released, and its limits."""

import time

import numpy as np
import pytest
from scipy.optimize import linprog

from npsvm_cvx import load, load_dataset, solve
from npsvm_cvx.compile import compile
from npsvm_cvx.datasets import preprocessor
from npsvm_cvx.interior import Budget, interior_point
from npsvm_cvx.planes import Rows, class_matrices
from npsvm_cvx.proximal import proximal_point
from npsvm_cvx.terms import Terms

CORNERS = [(C1, C2) for C1 in (2**-8, 2**8) for C2 in (2**-8, 2**8)]


def regression(seed, n, d):
    """A 1-norm regression with a ridge of 1-norm: rows, and terms of boxes [-1, 1]."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, d - 1)), np.ones(n)])
    y = X @ rng.normal(size=d) + rng.laplace(size=n)
    return np.vstack([X, np.eye(d)]), Terms.of(n + d, np.append(-y, np.zeros(d)), 0.0, -1.0, 1.0)


def highs(G, terms):
    """Return the optimal value, and the plane as the equation's multiplier, by the dual simplex method."""
    bounds = list(zip(terms.lower, terms.upper, strict=True))
    found = linprog(terms.linear, A_eq=G.T, b_eq=np.zeros(G.shape[1]), bounds=bounds, method="highs-ds")
    assert found.status == 0
    return -found.fun, -found.eqlin.marginals


def ones(X):
    return np.column_stack([X, np.ones(len(X))])


# --- the vertex -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [30, 300, 1500, 4000])
def test_it_ends_on_the_vertex_of_highs(n):
    # with data in general position the plane is unique, so the two are one to rounding
    G, terms = regression(n, n, 6)
    value, plane = highs(G, terms)
    pair = interior_point(G, terms, Budget(200))
    assert pair.balanced
    assert pair.gap <= 1e-12 * value
    np.testing.assert_allclose(pair.z, plane, rtol=1e-9, atol=1e-11)
    assert terms.phi(G @ pair.z).sum() == pytest.approx(value, rel=1e-12)
    assert (np.abs(pair.a) <= 1).all()
    # a vertex: as many rows on their kink as columns, and the other multipliers at a bound
    assert ((np.abs(pair.a) < 1).sum(), (np.abs(G @ pair.z + terms.linear) < 1e-10).sum()) == (6, 6)


def test_the_median():
    # min sum |z - y|: the value by sorting; an even count leaves an interval of planes, any of which is right
    for y in (np.array([1.0, 2.0, 9.0]), np.array([1.0, 2.0, 4.0, 9.0]), np.full(5, 3.0), np.arange(2000.0)):
        pair = interior_point(np.ones((len(y), 1)), Terms.of(len(y), -y, 0.0, -1.0, 1.0), Budget(100))
        least = np.abs(y - np.median(y)).sum()
        assert np.abs(y - pair.z[0]).sum() == pytest.approx(least, rel=1e-12, abs=1e-12)
        assert abs(pair.a.sum()) <= 1e-10


def test_an_exact_fit():
    # the optimum is zero, and nothing is relative to it
    G, _ = regression(4, 50, 3)
    G, plane = G[:50], np.array([1.0, -2.0, 3.0])
    result = proximal_point(G, Terms.of(50, -G @ plane, 0.0, -1.0, 1.0))
    np.testing.assert_allclose(result.w, plane, rtol=1e-10)
    assert result.primal <= 1e-12
    nothing = proximal_point(G, Terms.of(50, 0.0, 0.0, -1.0, 1.0))
    assert (nothing.status, nothing.primal, nothing.dual) == ("converged", 0.0, 0.0)


def test_a_quantile_by_boxes_that_are_not_symmetric():
    # the 0.9 quantile of 0 .. 100 is 90: ninety points below and ten above, and the kink in between
    y = np.arange(101.0)
    pair = interior_point(np.ones((101, 1)), Terms.of(101, -y, 0.0, -0.1, 0.9), Budget(100))
    # phi(t) = 0.1 t or -0.9 t with t = z - y: slopes -0.9 (count above) + 0.1 (count below)
    assert pair.z[0] == pytest.approx(90.0, abs=1e-10)


def test_a_box_without_width_takes_no_part():
    G, terms = regression(5, 40, 3)
    more = np.vstack([G, 1e3 * np.ones((2, 3))])
    closed = Terms(*(np.append(x, [y, y]) for x, y in zip(terms[:4], (-1.0, 0.0, 0.0, 0.0), strict=True)))
    pair, same = interior_point(more, closed, Budget(100)), interior_point(G, terms, Budget(100))
    np.testing.assert_allclose(pair.z, same.z, rtol=1e-12)
    np.testing.assert_array_equal(pair.a[-2:], 0.0)


def test_repeated_rows_are_one_row_of_a_wider_box():
    G, terms = regression(6, 60, 4)
    five = Terms.of(len(G) * 5, np.repeat(terms.linear, 5), 0.0, -1.0, 1.0)
    many = interior_point(np.repeat(G, 5, axis=0), five, Budget(100))
    one = interior_point(G, terms._replace(lower=5 * terms.lower, upper=5 * terms.upper), Budget(100))
    np.testing.assert_allclose(many.z, one.z, rtol=1e-9, atol=1e-12)
    assert many.balanced
    assert many.gap <= 1e-12 * five.phi(np.repeat(G, 5, axis=0) @ many.z).sum()


def test_rows_held_on_the_wrong_side_are_released(monkeypatch):
    # without any doubt rows are held that should not be: the gap tells, and the answer is the same
    G, terms = regression(7, 6000, 5)
    value, plane = highs(G, terms)
    for doubt in (0.02, 0.1, 1.0, 1e6):
        monkeypatch.setattr("npsvm_cvx.interior._DOUBT", doubt)
        pair = interior_point(G, terms, Budget(500))
        assert pair.gap <= 1e-12 * value, doubt
        np.testing.assert_allclose(pair.z, plane, rtol=1e-9, atol=1e-11)


def test_holding_rows_changes_nothing(monkeypatch):
    rng = np.random.default_rng(8)
    for X in (rng.normal(size=(3000, 4)), rng.integers(0, 2, size=(3000, 4)).astype(float)):
        S, R = ones(X[:1700]), ones(X[1700:] + 0.25)
        for C1, C2 in ((1.0, 1.0), *CORNERS):
            G, terms, _ = compile(load("l1_ls_twsvm")(C1, C2)).assembled(S, R)
            held = proximal_point(G, terms)
            with monkeypatch.context() as patch:
                patch.setattr("npsvm_cvx.interior._MANY", 10**9)
                free = proximal_point(G, terms)
            assert held.converged
            assert free.converged
            assert held.primal == pytest.approx(free.primal, rel=1e-11)


# --- limits ---------------------------------------------------------------------------------------


def test_a_budget_is_kept():
    G, terms = regression(9, 3000, 5)
    for steps in (0, 1, 2, 5, 30):
        budget = Budget(steps)
        interior_point(G, terms, budget)
        assert budget.spent <= steps
    assert interior_point(G, terms, Budget(1)) is None
    late = Budget(100, time.monotonic() - 1.0)
    assert late.left == 0
    assert interior_point(G, terms, late) is None
    assert late.spent == 0


def test_limits_of_the_solver_around_it():
    G, terms = regression(10, 3000, 5)
    for sweeps in (1, 3, 6):
        result = proximal_point(G, terms, tol=1e-12, max_sweeps=sweeps)
        assert (result.status, result.sweeps, result.converged) == ("iteration limit", sweeps, False)
        assert result.primal >= result.dual
    late = proximal_point(G, terms, tol=1e-12, time_limit=0.0)
    assert (late.status, late.converged) == ("time limit", False)
    assert proximal_point(G, terms, tol=1e-12).status == "converged"


def test_a_tolerance_beyond_rounding_ends_as_stalled_or_at_zero():
    G, terms = regression(11, 200, 4)
    result = proximal_point(G, terms, tol=0.0)
    assert result.status in ("stalled", "converged")
    assert result.relative_gap <= 1e-14


@pytest.mark.parametrize("options", [{"relaxation": 0.0}, {"relaxation": 2.0}, {"tol": -1.0}, {"tol": np.nan}])
def test_bad_options(options):
    G, terms = regression(12, 20, 3)
    with pytest.raises(ValueError, match=next(iter(options))):
        proximal_point(G, terms, **options)


def test_inputs_are_not_written_to():
    G, terms = regression(13, 1500, 4)
    for x in (G, *terms[:4]):
        x.setflags(write=False)
    reference = proximal_point(G, terms)
    np.testing.assert_allclose(proximal_point(np.asfortranarray(G), terms).w, reference.w, rtol=1e-9, atol=1e-11)


# --- the proved gap -------------------------------------------------------------------------------


def ugly():
    rng = np.random.default_rng(14)
    A, B = rng.normal(size=(40, 5)), rng.normal(size=(30, 5)) + 0.7
    yield "plain", A, B
    yield "duplicates", A[rng.integers(0, 10, 80)], B[rng.integers(0, 8, 60)]
    yield "integers", np.round(A[rng.integers(0, 10, 80)]), np.round(B[rng.integers(0, 8, 60)])
    yield "a constant column", np.column_stack([A, np.full(40, 3.0)]), np.column_stack([B, np.full(30, 3.0)])
    yield "a repeated column", np.column_stack([A, A[:, 0]]), np.column_stack([B, B[:, 0]])
    yield "a column of zeros", np.column_stack([A, np.zeros(40)]), np.column_stack([B, np.zeros(30)])
    yield "one margin row", A, B[:1]
    yield "one near row", A[:1], B
    yield "one of each", A[:1], B[:1]
    yield "two values", (A > 0) * 1.0, (B > 0) * 1.0
    yield "classes that are one", A, A
    yield "unlike scales", A * np.logspace(-4, 4, 5), B * np.logspace(-4, 4, 5)
    yield "an offset", A + 1e4, B + 1e4
    shift = np.array([1e4, 0.0, 0.0, 0.0, 0.0])
    yield "one column with an offset", A + shift, B + shift


@pytest.mark.parametrize(("name", "near", "margin"), [pytest.param(*case, id=case[0]) for case in ugly()])
def test_the_gap_of_ugly_data_is_proved(name, near, margin):
    S, R = ones(near), ones(margin)
    for C1, C2 in (*CORNERS, (1.0, 1.0)):
        solution = solve(load("l1_ls_twsvm")(C1, C2), S, R)
        assert solution.converged
        assert solution.certificate.relative_gap <= 1e-9, (C1, C2)


def test_more_features_than_rows():
    rng = np.random.default_rng(15)
    S, R = ones(rng.normal(size=(12, 50))), ones(rng.normal(size=(9, 50)))
    for C1, C2 in (*CORNERS, (1.0, 1.0)):
        solution = solve(load("l1_ls_twsvm")(C1, C2), S, R, tol=1e-10)
        assert solution.converged
        # with C2 / C1 = 2^16 the rounding of R z alone, times C2, is 2.9e-9 of the value: no plane is proved nearer
        assert solution.certificate.relative_gap <= (5e-9 if C2 > 1 > C1 else 1e-9)


@pytest.mark.parametrize("name", ["heart_statlog", "australian", "iris", "cmc", "segment"])
@pytest.mark.parametrize("gamma", [None, 2.0**-4, 1.0])
def test_the_gap_of_real_data_is_proved(name, gamma):
    data = load_dataset(name)
    X, y = np.asarray(preprocessor(data).fit_transform(data.data), dtype=float), np.asarray(data.target)
    if gamma is not None:
        pick = np.random.default_rng(16).permutation(len(y))[:120]
        X, y = X[pick], y[pick]
    rows = (Rows() if gamma is None else Rows.of("rbf", X, gamma=gamma))(X)
    S, R = class_matrices(rows, y, np.unique(y)[0], "farthest")
    for C1, C2 in (*CORNERS, (1.0, 1.0)):
        solution = solve(load("l1_ls_twsvm")(C1, C2), S, R, tol=1e-10)
        assert solution.converged
        # a kernel's planes have large coefficients that cancel, and R z is known but to its rounding, times C2
        reach = C2 * float((np.abs(R) @ np.abs(solution.plane)).sum())
        floor = (R.shape[1] + 2) * 2.0**-53 * reach / solution.primal
        assert solution.certificate.relative_gap <= max(1e-9, 20 * floor), (C1, C2, floor)


def test_many_rows_are_proved_too():
    # the certificate's bound on the rounding of 20,000-term sums is 2e-12 of their size: without room left for it in
    # the boxes of the identity's rows, shrinking all multipliers would cost 1e-6 of the value at C1 = 1/16
    rng = np.random.default_rng(17)
    X = rng.normal(size=(20_000, 20))
    S, R = ones(X[:10_000]), ones(X[10_000:] + 0.1)
    for C1, C2 in ((1.0, 1.0), (2**-4, 2**4), (0.1, 2.0)):
        compiled = compile(load("l1_ls_twsvm")(C1, C2))
        result, plane = compiled.solve(S, R)
        assert result.converged
        assert compiled.proof(S, R, plane, result.a).check().relative_gap <= 1e-9
