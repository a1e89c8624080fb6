"""The fast solver alone: closed forms, any relaxation, honest gaps, limits, degenerate rows, and bad input."""

import signal
import subprocess
import sys
import time

import numpy as np
import oracle
import pytest
from scipy.optimize import linprog

from npsvm_cvx import load, solve
from npsvm_cvx.linalg import Factor
from npsvm_cvx.proximal import proximal_point
from npsvm_cvx.sor import SORResult, compress, sor
from npsvm_cvx.terms import Terms

HINGE = {"linear": -1.0, "lower": 0.0, "upper": 1.0}


def typed_terms(name, p, n):
    h = oracle.TABLE[name](p)
    return Terms.of(n, h.linear, h.curvature, h.lower, h.upper, n * h.constant)


def whitened(name, p, S, R):
    return Factor(S, oracle.TABLE[name](p).ridge).whiten(R)


def check_result(result: SORResult, F, terms):
    """Every promise of a result that can be checked from the arrays alone."""
    assert (result.a >= terms.lower).all()  # inside the box exactly, not to a tolerance
    assert (result.a <= terms.upper).all()
    np.testing.assert_allclose(result.w, F.T @ result.a, rtol=1e-9, atol=1e-12 * (1 + np.abs(result.w).max()))
    assert result.gap >= 0
    assert result.primal >= result.dual
    # the objectives, formed outright
    dual = -result.w @ result.w / 2 - terms.linear @ result.a - terms.curvature @ result.a**2 / 2 - terms.constant
    assert result.dual == pytest.approx(dual, rel=1e-9, abs=1e-12)


# --- closed forms ---------------------------------------------------------------------------------


def test_one_sample_of_the_hinge():
    # max a - |f|^2 a^2 / 2 on [0, 1]: a = min(1 / |f|^2, 1)
    for f, a in ((2.0, 0.25), (1.0, 1.0), (0.5, 1.0)):
        result = sor(np.array([[f, 0.0]]), Terms.of(1, **HINGE))
        assert result.a[0] == pytest.approx(a, rel=1e-12)
        assert result.converged
        assert result.primal == pytest.approx(a - f**2 * a**2 / 2, rel=1e-12)


def test_orthogonal_rows_decouple():
    norms = np.array([0.5, 1.0, 2.0, 4.0])
    result = sor(np.diag(norms), Terms.of(4, **HINGE), tol=1e-14)
    np.testing.assert_allclose(result.a, np.minimum(1 / norms**2, 1), rtol=1e-12)


def test_without_bounds_it_is_one_linear_system():
    # max e'a - 1/2 |F'a|^2 - 1/2 c |a|^2: (F F' + c I) a = e
    rng = np.random.default_rng(0)
    F, c = rng.normal(size=(12, 5)), 0.3
    result = sor(F, Terms.of(12, -1.0, c), tol=1e-13)
    np.testing.assert_allclose(result.a, np.linalg.solve(F @ F.T + c * np.eye(12), np.ones(12)), rtol=1e-8)


def test_bounds_that_meet_leave_nothing_to_choose():
    F = np.random.default_rng(1).normal(size=(4, 3))
    result = sor(F, Terms.of(4, -1.0, 0.0, 0.25, 0.25))
    np.testing.assert_array_equal(result.a, 0.25)
    assert result.converged
    assert result.gap == 0
    assert result.sweeps == 0


def test_the_constant_moves_both_objectives():
    F = np.random.default_rng(2).normal(size=(6, 3))
    plain, moved = (sor(F, Terms.of(6, **HINGE, constant=c), tol=1e-12) for c in (0.0, 5.0))
    assert moved.primal == pytest.approx(plain.primal - 5, rel=1e-10)
    assert moved.dual == pytest.approx(plain.dual - 5, rel=1e-10)
    np.testing.assert_allclose(moved.w, plain.w, atol=1e-6)


def test_phi_is_the_conjugate_of_h_and_brackets_are_their_sum():
    # phi(t) = sup_a (-a t - h(a)), by a fine grid over the box
    rng = np.random.default_rng(3)
    for terms in (
        Terms.of(5, -1.0, 0.0, 0.0, 2.0), Terms.of(5, -1.0, 0.5, -1.0, 3.0), Terms.of(5, 0.3, 2.0, -4.0, 4.0),
    ):  # fmt: skip
        t = rng.normal(size=5)
        grid = np.linspace(terms.lower[0], terms.upper[0], 200_001)
        h = terms.linear[0] * grid + terms.curvature[0] * grid**2 / 2
        supremum = [(-grid * x - h).max() for x in t]
        np.testing.assert_allclose(terms.phi(t), supremum, atol=1e-9)
        a = rng.uniform(terms.lower, terms.upper)
        here = terms.linear * a + terms.curvature * a**2 / 2
        np.testing.assert_allclose(terms.brackets(a, t), terms.phi(t) + here + a * t, atol=1e-12)
        assert (terms.brackets(a, t) >= 0).all()


def test_phi_is_infinite_where_the_supremum_is():
    terms = Terms.of(3, -1.0, 0.0, 0.0, np.inf)  # a hard margin: phi is 0 for t >= 1 and infinite below
    np.testing.assert_array_equal(terms.phi(np.array([0.5, 1.0, 2.0])), [np.inf, 0.0, 0.0])
    np.testing.assert_array_equal(terms.brackets(np.zeros(3), np.array([0.5, 1.0, 2.0])), [np.inf, 0.0, 0.0])


# --- against the oracle ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(oracle.TABLE))
@pytest.mark.parametrize("relaxation", [0.1, 0.7, 1.0, 1.5, 1.9])
def test_any_relaxation_converges_to_the_same(name, relaxation):
    S, R = oracle.matrices(1, 10, 8)
    p = oracle.params(name, 0.5, 2.0)
    best = oracle.optimum(name, p, S, R)
    F, terms = whitened(name, p, S, R), typed_terms(name, p, 8)
    result = sor(F, terms, relaxation=relaxation, tol=1e-9)
    assert result.converged
    assert result.primal == pytest.approx(best.value, rel=3e-9)
    check_result(result, F, terms)


@pytest.mark.parametrize("name", ["hnpsvm", "ls_twsvm", "smooth_twsvm", "huber_hinge", "nppc"])
@pytest.mark.parametrize("relaxation", [0.7, 1.0, 1.5])
def test_sweeps_alone_converge_to_the_same(name, relaxation):
    S, R = oracle.matrices(1, 10, 8)
    p = oracle.params(name, 0.5, 2.0)
    best = oracle.optimum(name, p, S, R)
    F, terms = whitened(name, p, S, R), typed_terms(name, p, 8)
    result = sor(F, terms, relaxation=relaxation, finish=False, tol=1e-9, max_sweeps=50_000)
    assert result.converged, result.status
    assert result.primal == pytest.approx(best.value, rel=3e-9)


@pytest.mark.parametrize("relaxation", [0.1, 1.5])
def test_slow_progress_of_the_gap_is_not_a_stall(relaxation):
    # the dual still rises with every sweep; the gap is not monotone, and ten looks at it say nothing
    S, R = oracle.matrices(1, 10, 8)
    p = oracle.params("pinball", 0.5, 2.0)
    F = Factor(S, 0.5).whiten(R)
    result = sor(F, Terms.of(8, -1.0, 0.0, -1.0, 2.0), relaxation=relaxation, finish=False, tol=1e-9, max_sweeps=50_000)
    assert result.converged, (result.status, result.relative_gap)
    assert result.primal == pytest.approx(oracle.optimum("pinball", p, S, R).value, rel=3e-9)


@pytest.mark.parametrize("name", sorted(oracle.TABLE))
def test_the_gap_bounds_the_true_gap(name):
    # stopped anywhere, primal and dual enclose the optimum, and the gap says how far each is from it at most
    S, R = oracle.matrices(2, 14, 11)
    p = oracle.params(name, 2**-8, 2**4)
    best = oracle.optimum(name, p, S, R)
    F, terms = whitened(name, p, S, R), typed_terms(name, p, 11)
    slack = 1e-11 * abs(best.value)
    seen = set()
    for sweeps in (1, 2, 3, 5, 8, 13, 40):
        result = sor(F, terms, finish=False, tol=0.0, max_sweeps=sweeps)
        check_result(result, F, terms)
        seen.add(result.gap)
        assert result.dual <= best.upper + slack
        assert result.primal >= best.lower - slack
        if np.isfinite(result.gap):
            assert result.gap >= best.lower - result.dual - slack
            assert result.gap >= result.primal - best.upper - slack
            z = np.linalg.solve(S.T @ S + p[oracle.RIDGE[name]] * np.eye(4), R.T @ result.a)
            # what the plane is worth by plain NumPy is the primal value it states
            assert oracle.primal_value(name, p, S, R, z) == pytest.approx(result.primal, rel=1e-9)
    assert len(seen) > 2


@pytest.mark.parametrize("name", sorted(oracle.TABLE))
def test_corners_are_reached(name):
    S, R = oracle.matrices(3, 15, 12)
    for p in oracle.settings(name):
        F, terms = whitened(name, p, S, R), typed_terms(name, p, 12)
        result = sor(F, terms, tol=1e-12)
        best = oracle.optimum(name, p, S, R)
        assert result.primal == pytest.approx(best.value, rel=1e-10 + 2 * best.width)
        check_result(result, F, terms)


# --- starts, limits, ends -------------------------------------------------------------------------


def hard():
    """Rank-one rows beside a large box: plain sweeps need thousands, and a few are nowhere near."""
    rng = np.random.default_rng(4)
    F = rng.normal(size=(60, 40)) @ np.diag(10.0 ** -np.linspace(0, 3, 40))
    return F, Terms.of(60, -1.0, 0.0, 0.0, 2.0**8)


def test_the_answer_does_not_depend_on_the_start():
    S, R = oracle.matrices(5, 12, 9)
    p = oracle.params("hnpsvm", 0.5, 2.0)
    F, terms = whitened("hnpsvm", p, S, R), typed_terms("hnpsvm", p, 9)
    cold = sor(F, terms, tol=1e-12)
    for start in (np.full(9, 2.0), np.full(9, -50.0), np.full(9, 1e9), np.linspace(0, 2, 9)):
        warm = sor(F, terms, tol=1e-12, start=start)
        assert warm.primal == pytest.approx(cold.primal, rel=1e-10)
        check_result(warm, F, terms)
    again = sor(F, terms, tol=1e-12, start=cold.a)
    assert again.sweeps == 0
    assert again.converged


def test_the_start_is_not_written_to():
    F, terms = hard()
    start = np.full(60, 300.0)
    sor(F, terms, start=start, max_sweeps=3)
    np.testing.assert_array_equal(start, 300.0)


def test_inputs_are_not_written_to_and_any_layout_will_do():
    S, R = oracle.matrices(5, 12, 9)
    p = oracle.params("hnpsvm")
    F, terms = whitened("hnpsvm", p, S, R), typed_terms("hnpsvm", p, 9)
    F.setflags(write=False)
    for x in terms[:4]:
        x.setflags(write=False)
    reference = sor(F, terms, tol=1e-12)
    for other in (np.asfortranarray(F), np.repeat(F, 2, axis=1)[:, ::2], F.tolist()):
        np.testing.assert_array_equal(sor(np.asarray(other), terms, tol=1e-12).a, reference.a)


def test_seeds_change_the_order_and_nothing_else():
    F, terms = hard()
    one, two, other = (sor(F, terms, tol=1e-10, random_state=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(one.a, two.a)
    assert other.primal == pytest.approx(one.primal, rel=1e-9)


def test_an_iteration_limit_is_kept_and_told():
    F, terms = hard()
    for limit in (1, 2, 7):
        result = sor(F, terms, tol=1e-12, max_sweeps=limit, finish=False)
        assert result.status == "iteration limit"
        assert not result.converged
        assert result.sweeps == limit
        assert result.relative_gap > 1e-12


def test_a_time_limit_is_told():
    F, terms = hard()
    result = sor(F, terms, tol=0.0, time_limit=0.0, finish=False)
    assert result.status == "time limit"
    assert not result.converged


def test_stalled_at_working_precision():
    # a gap of exactly zero cannot be promised: asked for it, the solver stops when nothing improves any more
    F, terms = hard()
    result = sor(F, terms, tol=0.0)
    assert result.status in ("stalled", "converged")
    assert result.relative_gap < 1e-12
    assert result.converged == (result.gap == 0)


def test_the_finish_ends_where_sweeps_alone_crawl():
    F, terms = hard()
    finished, plain = (sor(F, terms, tol=1e-10, finish=f, max_sweeps=200) for f in (True, False))
    assert finished.converged
    assert finished.sweeps < 50
    assert not plain.converged
    assert plain.gap > finished.gap


def test_without_the_finish_it_converges_too():
    F, terms = hard()
    easy = terms._replace(upper=np.full(60, 1.0))
    plain, finished = (sor(F, easy, tol=1e-8, finish=f, max_sweeps=100_000) for f in (False, True))
    assert plain.converged
    assert plain.primal == pytest.approx(finished.primal, rel=3e-8)


# --- degenerate rows ------------------------------------------------------------------------------


def test_repeated_rows():
    S, R = oracle.matrices(6, 12, 6)
    p = oracle.params("hnpsvm", 0.5, 2.0)
    five = np.vstack([R] * 5)
    F, terms = whitened("hnpsvm", p, S, five), typed_terms("hnpsvm", p, 30)
    result = sor(F, terms, tol=1e-11)
    assert result.converged
    # five times a row with C2 is the row once with 5 C2: an identity of the primal
    best = oracle.optimum("hnpsvm", {"C1": 0.5, "C2": 10.0}, S, R)
    assert result.primal == pytest.approx(best.value, rel=1e-9)


def test_zero_rows_go_to_their_bound_or_stay():
    F = np.vstack([np.eye(2), np.zeros((2, 2))])
    result = sor(F, Terms.of(4, np.array([-1.0, -1.0, -1.0, 1.0]), 0.0, 0.0, 0.5), tol=1e-12)
    # max a - a^2 / 2 on [0, 1/2] for the first two; the zero rows gain 1 and lose 1 a unit
    np.testing.assert_allclose(result.a, [0.5, 0.5, 0.5, 0.0])
    assert result.converged
    stay = sor(np.zeros((2, 2)), Terms.of(2, 0.0, 0.0, -1.0, 1.0))
    assert stay.converged
    assert stay.primal == stay.dual == 0


@pytest.mark.parametrize("scale", [1e-50, 1e-6, 1e-3, 1e3, 1e6, 1e100])
def test_scales(scale):
    # F -> s F with C2 -> C2 / s^2 and linear kept scales a by 1 / s^2 and the value likewise: an exact identity
    rng = np.random.default_rng(8)
    F = rng.normal(size=(20, 4))
    reference = sor(F, Terms.of(20, -1.0, 0.0, 0.0, 0.7), tol=1e-12)
    result = sor(scale * F, Terms.of(20, -1.0, 0.0, 0.0, 0.7 / scale**2), tol=1e-12)
    assert result.converged
    assert result.primal * scale**2 == pytest.approx(reference.primal, rel=1e-9)


def test_more_features_than_samples():
    rng = np.random.default_rng(9)
    F = rng.normal(size=(8, 200))
    rows, basis = compress(F)
    assert rows.shape == (8, 8)
    np.testing.assert_allclose(rows @ rows.T, F @ F.T, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(rows @ basis.T, F, rtol=1e-12, atol=1e-10)
    rows, basis = compress(F.T)
    np.testing.assert_array_equal(rows, F.T)
    assert basis is None
    terms = Terms.of(8, -1.0, 0.0, 0.0, 0.004)
    result = sor(F, terms, tol=1e-12)
    assert result.w.shape == (200,)
    check_result(result, F, terms)
    assert result.converged


def test_the_plane_w_is_zero_and_every_sample_ties():
    # one-dimensional data on both sides and a large C2: w = 0, |b| = 1 is optimal (value 40, see the pitfalls)
    S = np.array([[1.0, 0.0], [0.0, 1e-3]])  # 1/2 w^2 and a trace of b^2
    x, y = np.array([-4.0, 1, -8, 2, 0, 5, -1]), np.array([-1.0, 1, 1, 1, 1, 1, -1])
    R = y[:, None] * np.column_stack([x, np.ones(7)])
    factor = Factor(S, 0.0)
    result = sor(factor.whiten(R), Terms.of(7, -1.0, 0.0, 0.0, 10.0), tol=1e-9)
    assert result.converged
    assert result.primal == pytest.approx(40, abs=1e-5)
    np.testing.assert_allclose(factor.unwhiten(result.w), [0, 1], atol=1e-5)


def test_one_sample_and_one_column():
    for F in (np.ones((1, 1)), np.ones((1, 7)), np.ones((7, 1))):
        result = sor(F, Terms.of(len(F), **HINGE), tol=1e-12)
        assert result.converged


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("relaxation", [0.0, 2.0, -1.0, 2.5, float("nan")])
def test_relaxation_outside_its_interval(relaxation):
    with pytest.raises(ValueError, match=r"relaxation=.* must lie in \(0, 2\)"):
        sor(np.eye(2), Terms.of(2, **HINGE), relaxation=relaxation)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"F": np.array([[np.nan, 1.0]])}, "F must be a finite matrix"),
        ({"F": np.array([[np.inf, 1.0]])}, "F must be a finite matrix"),
        ({"F": np.ones(3)}, "F must be a finite matrix"),
        ({"terms": Terms.of(2, **HINGE)}, "F has 1 rows, the terms are for 2"),
        ({"tol": -1e-9}, "tol=-1e-09 must be nonnegative"),
        ({"tol": float("nan")}, "tol=nan must be nonnegative"),
        ({"start": np.ones(2)}, "start must be 1 finite numbers"),
        ({"start": np.array([np.nan])}, "start must be 1 finite numbers"),
    ],
)
def test_bad_arguments_are_named(change, message):
    given = {"F": np.ones((1, 2)), "terms": Terms.of(1, **HINGE), **change}
    with pytest.raises(ValueError, match=message):
        sor(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"linear": np.nan}, "must not be NaN"),
        ({"linear": np.inf}, "must be finite"),
        ({"linear": 1.0, "curvature": -1.0}, "curvature must be nonnegative"),
        ({"linear": 1.0, "curvature": np.inf}, "must be finite"),
        ({"linear": 1.0, "lower": 2.0, "upper": 1.0}, "lower must not exceed upper"),
        ({"linear": 1.0, "lower": np.inf}, "lower must not exceed upper"),
    ],
)
def test_impossible_terms_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Terms.of(2, **given)


def test_an_unbounded_dual_is_named_by_its_row():
    # a hard margin on a row of zeros: no plane meets it
    with pytest.raises(ValueError, match="unbounded: row 1 of F is zero"):
        sor(np.array([[1.0, 0.0], [0.0, 0.0]]), Terms.of(2, -1.0, 0.0, 0.0, np.inf))


# --- the proximal-point loop ----------------------------------------------------------------------


def random_program(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 5))
    n = d + int(rng.integers(1, 15))
    G = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1, 1, size=(n, 1))
    return G, rng.normal(size=n), -rng.uniform(0.1, 3, n), rng.uniform(0.1, 3, n)


@pytest.mark.parametrize("seed", range(12))
def test_proximal_point_against_highs(seed):
    # max -c'a subject to G'a = 0 and the box, by SciPy's linprog
    G, linear, lower, upper = random_program(seed)
    reference = linprog(linear, A_eq=G.T, b_eq=np.zeros(G.shape[1]), bounds=list(zip(lower, upper, strict=True)))
    assert reference.status == 0
    for relaxation in (1.0, 1.5):
        result = proximal_point(G, Terms.of(len(G), linear, 0.0, lower, upper), tol=1e-10, relaxation=relaxation)
        assert result.converged
        assert result.dual == pytest.approx(-reference.fun, rel=1e-8, abs=1e-10)
        assert result.primal == pytest.approx(-reference.fun, rel=1e-8, abs=1e-10)
        # feasible: the box exactly up to rounding, the equation relative to what is added up
        assert (result.a >= lower - 1e-15).all()
        assert (result.a <= upper + 1e-15).all()
        assert np.abs(G.T @ result.a).max() <= 1e-12 * (np.abs(G).T @ np.abs(result.a)).max() + 1e-12
        # and w is the plane: its value by plain NumPy
        t = G @ result.w
        value = np.where(t + linear > 0, -(t + linear) * lower, -(t + linear) * upper).sum()
        assert value == pytest.approx(result.primal, rel=1e-8, abs=1e-9)


def test_proximal_point_limits():
    G, linear, lower, upper = random_program(20)
    terms = Terms.of(len(G), linear, 0.0, lower, upper)
    few = proximal_point(G, terms, tol=1e-13, max_sweeps=1)
    assert few.status in ("iteration limit", "converged")
    assert few.converged == (few.status == "converged")
    late = proximal_point(G, terms, tol=0.0, time_limit=0.0)
    assert late.status == "time limit"
    assert not late.converged
    assert late.primal >= late.dual


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"curvature": 1.0}, "zero curvature"),
        ({"lower": 0.5}, "zero curvature and boxes"),
        ({"upper": -0.5, "lower": -1.0}, "zero curvature and boxes"),
        ({"upper": np.inf}, "finite boxes"),
    ],
)
def test_proximal_point_refuses_other_shapes(change, message):
    given = {"linear": -1.0, "curvature": 0.0, "lower": -1.0, "upper": 1.0, **change}
    with pytest.raises(ValueError, match=message):
        proximal_point(np.eye(3)[:, :2], Terms.of(3, **given))


def test_proximal_point_needs_columns_that_are_there():
    with pytest.raises(ValueError, match="no column of zeros"):
        proximal_point(np.array([[1.0, 0.0], [2.0, 0.0]]), Terms.of(2, -1.0, 0.0, -1.0, 1.0))


def test_the_proximal_loop_with_zero_at_the_end_of_a_box():
    # LP30, min |A w + b|_1 + sum xi + |w|_1 / 10: 11.906068827672 by the simplex method, ECOS and SCS
    rng = np.random.default_rng(0)
    A, B = rng.normal(0.5, 1, (30, 5)), rng.normal(-0.5, 1, (30, 5))
    ones = np.ones((30, 1))
    G = np.vstack([-np.hstack([B, ones]), np.hstack([A, ones]), np.eye(6)[:5]])
    lower = np.r_[np.zeros(30), -np.ones(30), np.full(5, -0.1)]
    upper = np.r_[np.ones(60), np.full(5, 0.1)]
    terms = Terms.of(65, np.r_[-np.ones(30), np.zeros(35)], 0.0, lower, upper)
    try:
        result = proximal_point(G, terms, tol=1e-9)
    except ValueError:
        return  # refusing the shape would be right as well
    assert (result.a >= lower - 1e-12).all()
    assert result.dual <= 11.906068827672 * (1 + 1e-9)
    assert not result.converged or result.primal == pytest.approx(11.906068827672, rel=1e-8)


def test_the_proximal_loop_gives_up_where_nothing_improves():
    # two near rows repeated, scale 1000, C2 = 256: eight rows, and about a minute at a gap that no longer moves
    rng = np.random.default_rng(1211)
    m, n, d = [*rng.integers(1, 9, 2).tolist(), int(rng.integers(1, 7))]
    scale = 10.0 ** int(rng.integers(-3, 4))
    near = scale * rng.normal(size=(m, d))
    margin = scale * (rng.normal(size=(n, d)) + rng.choice([0, 1, 5]))
    assert (int(rng.integers(0, 6)), m, n, scale) == (2, 7, 4, 1000.0)
    near, margin = near[[0] * m], margin[np.arange(n) // 2]
    S, R = np.column_stack([near, np.ones(m)]), rng.choice([-1, 1]) * np.column_stack([margin, np.ones(n)])
    G = np.vstack([R, -S, -np.eye(d + 1)])
    box = np.r_[np.full(n, 256.0), np.ones(m), np.full(d + 1, 2.0**-8)]
    linear = np.r_[-np.ones(n), np.zeros(m + d + 1)]
    result = proximal_point(G, Terms.of(len(G), linear, 0.0, -box, box), tol=1e-9, time_limit=5.0)
    assert result.status != "time limit"


@pytest.mark.parametrize(
    ("name", "p", "value"),
    [
        # values by Clarabel, ECOS and OSQP on the primal, which agree to eight digits (absolute: Clarabel and ECOS)
        ("pinball", {"C1": 2**-8, "C2": 1.0, "tau": 0.5}, 0.07370454665),
        ("absolute", {"C1": 2**-8, "C2": 1.0}, 0.14155948195),
    ],
)
def test_unscaled_features_and_a_two_sided_loss(name, p, value):
    # features of several thousand, one near row: the whitened rows have singular values from 2e5 to 0.1, and F'a
    # loses the digits that the plane itself keeps
    rng = np.random.default_rng(0)
    S = np.column_stack([1e3 * rng.normal(size=(1, 2)), np.ones(1)])
    R = np.column_stack([1e3 * (rng.normal(size=(3, 2)) + 5), np.ones(3)])
    result = solve(load(name)(**p), S, R, tol=1e-8)
    assert result.primal == pytest.approx(value, rel=1e-6)


def test_an_interrupt_ends_it_between_sweeps():
    code = (
        "import numpy as np\n"
        "from npsvm_cvx.sor import sor\n"
        "from npsvm_cvx.terms import Terms\n"
        "F = np.random.default_rng(0).normal(size=(200_000, 20))\n"
        "hinge = Terms.of(len(F), -1.0, 0.0, 0.0, 1.0)\n"
        "sor(F[:100], hinge.at(slice(100)), max_sweeps=2, finish=False)\n"
        "print('go', flush=True)\n"
        "sor(F, hinge, tol=0.0, max_sweeps=10**9, finish=False)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job's children ignore it
    ) as process:
        try:
            assert process.stdout.readline() == "go\n"
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert "KeyboardInterrupt" in errors
    assert process.returncode != 0
