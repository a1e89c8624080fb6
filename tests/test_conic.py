"""The standard form: its cones, residuals and dual, against closed forms; and minimisation over a parameter."""

import cvxpy as cp
import numpy as np
import oracle
import pytest

from npsvm_cvx import Loss, Program, load
from npsvm_cvx.conic import Cones, ParametricMinimum, standard_form
from npsvm_cvx.lagrangian import DualDomain, Lagrangian
from npsvm_cvx.solvers import SOLVERS, solve_program
from npsvm_cvx.verification import verify


def test_distances_to_the_cones():
    cones = Cones(zero=1, nonneg=2, soc=(3,), exp=1)
    inside = np.array([0.0, 1.0, 0.0, 5.0, 3.0, 4.0, 0.0, 1.0, 1.0])  # |(3, 4)| = 5; 1 exp(0/1) = 1
    assert cones.distance(inside) == 0.0
    for index, value, distance in ((0, 0.25, 0.25), (0, -0.25, 0.25), (2, -0.5, 0.5), (3, 4.0, 1.0), (8, 0.0, 1.0)):
        point = inside.copy()
        point[index] = value
        assert cones.distance(point) == pytest.approx(distance), index


def test_distances_to_the_dual_cones():
    # the dual of the zero cone is free; of the exponential cone {u < 0, -u exp(v/u - 1) <= w}: (-1, 0, 1/e)
    cones = Cones(zero=1, nonneg=1, soc=(2,), exp=1)
    point = np.array([-100.0, 0.0, 1.0, 1.0, -1.0, 0.0, np.exp(-1)])
    assert cones.distance(point, dual=True) == pytest.approx(0.0, abs=1e-15)
    point[6] = 0.0
    assert cones.distance(point, dual=True) == pytest.approx(np.exp(-1))
    assert cones.distance(np.array([0.0, -2.0, 1.0, 1.0, 0.0, 0.0, 0.0]), dual=True) == 2.0
    # u = 0: v and w must be nonnegative
    assert cones.distance(np.array([0.0, 0.0, 0.0, 0.0, 0.0, -3.0, 0.0]), dual=True) == 3.0


def problems():
    """Small programs with optima in closed form, of every cone the standard form may hold."""
    x = cp.Variable(2)
    yield "quadratic", cp.Problem(cp.Minimize(cp.sum_squares(x) / 2 + cp.sum(x)), [cp.sum(x) == 1]), 1.25
    # |x - (1, 2)|^2 / 2 on x <= 1: x = (1, 1), value 1/2
    yield "bounded", cp.Problem(cp.Minimize(cp.sum_squares(x - np.array([1.0, 2.0])) / 2), [x <= 1]), 0.5
    yield "linear", cp.Problem(cp.Minimize(3 * x[0] + 5 * x[1]), [cp.sum(x) == 2, x >= 0]), 6.0
    # x'(3, 4) on the unit disc: -5
    yield "second order", cp.Problem(cp.Minimize(3 * x[0] + 4 * x[1]), [cp.norm(x) <= 1]), -5.0
    # exp(t) - t is least at 0; log t + log(2 - t) is 0 at t = 1
    yield "exponential", cp.Problem(cp.Minimize(cp.exp(x[0]) - x[0] + cp.square(x[1]))), 1.0
    yield "logarithm", cp.Problem(cp.Maximize(cp.log(x[0]) + cp.log(2 - x[0]) - cp.square(x[1]))), 0.0
    # 2 - |x - 1|^2 on x >= 2: x = (2, 2), value 0
    yield "maximum", cp.Problem(cp.Maximize(2 - cp.sum_squares(x - 1)), [x >= 2]), 0.0
    yield "constant", cp.Problem(cp.Minimize(cp.sum_squares(x) + 7), [x >= 1]), 9.0


@pytest.mark.parametrize(("problem", "value"), [p[1:] for p in problems()], ids=[p[0] for p in problems()])
def test_the_conic_dual_has_the_programs_value(problem, value):
    dual = standard_form(problem).dual_problem()
    dual.solve(solver="CLARABEL")
    sign = -1.0 if isinstance(problem.objective, cp.Maximize) else 1.0
    assert sign * dual.value == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize(("problem", "value"), [p[1:] for p in problems()], ids=[p[0] for p in problems()])
@pytest.mark.parametrize("solver", ["clarabel", "ecos", "scs"])
def test_residuals_of_an_optimal_pair(problem, value, solver):
    x = problem.variables()[0]
    found = solve_program(Program(problem.objective, {str(i): c for i, c in enumerate(problem.constraints)}, x), solver)
    assert found.value == pytest.approx(value, abs=1e-5)
    r = found.residuals
    assert max(r.primal, r.cone, r.stationarity) <= 1e-5
    # both objective values come with the sense and the constant of the program as written
    assert r.primal_value == pytest.approx(value, abs=1e-5)
    assert r.dual_value == pytest.approx(value, abs=1e-5)


@pytest.mark.parametrize("name", oracle.NAMES)
def test_the_conic_dual_of_every_primal_has_the_oracles_value(name):
    S, R = oracle.matrices(1)
    p = oracle.params(name, 0.5, 2.0)
    dual = standard_form(load(name)(**p).program("primal", S, R).problem).dual_problem()
    dual.solve(solver="CLARABEL")
    assert dual.value == pytest.approx(oracle.optimum(name, p, S, R).value, rel=1e-6)


def test_a_wrong_multiplier_is_seen_in_each_residual():
    S, R = oracle.matrices(2)
    form = standard_form(load("hnpsvm")().program("primal", S, R).problem)
    n, m = len(form.q), len(form.b)
    zero = form.residuals(np.zeros(n), np.zeros(m))
    assert zero.primal > 1e-2  # z = 0, xi = 0 misses the margins
    assert zero.stationarity > 1e-2  # and C2 e is no combination of nothing
    negative = form.residuals(np.zeros(n), -np.ones(m))
    assert negative.cone > 0.5
    assert negative.worst >= max(negative.primal, negative.cone, negative.stationarity)


# --- minimising over x at many values of a parameter ----------------------------------------------


def test_a_parametric_minimum_in_closed_form():
    # min_x |x|^2 / 2 + y'x = -|y|^2 / 2 at x = -y
    x, y = cp.Variable(3), cp.Parameter(3)
    minimum = ParametricMinimum(cp.Problem(cp.Minimize(cp.sum_squares(x) / 2 + y @ x)))
    for value in (np.array([1.0, -2.0, 3.0]), np.zeros(3), np.array([1e6, 0.0, 1e-6])):
        y.value = value
        found = minimum.minimise(float(np.abs(value).max()))
        assert found.attained
        assert found.exact
        assert found.value == pytest.approx(-value @ value / 2, rel=1e-12)
        np.testing.assert_allclose(x.value, -value, rtol=1e-9)


def test_an_unbounded_minimum_is_minus_infinity():
    # a slack with cost (C - a - b): free, so the infimum is finite only where that vanishes
    x, cost = cp.Variable(2), cp.Parameter(2)
    minimum = ParametricMinimum(cp.Problem(cp.Minimize(cost @ x)))
    cost.value = np.zeros(2)
    assert minimum.minimise(1.0).value == 0.0
    cost.value = np.array([0.0, 1e-3])
    assert minimum.minimise(1.0).value == -np.inf
    # beside numbers of size one, 1e-14 is rounding
    cost.value = np.array([0.0, 1e-14])
    assert minimum.minimise(1.0).value == pytest.approx(0.0, abs=1e-12)


def test_a_kink_is_a_part_of_its_own():
    # min |x| + y x: 0 for |y| <= 1, minus infinity beyond; with |x - 1| instead, y for |y| <= 1
    x, y = cp.Variable(1), cp.Parameter(1)
    minimum = ParametricMinimum(cp.Problem(cp.Minimize(cp.norm1(x - 1) + y @ x)))
    for slope in (-0.5, 0.0, 0.9):
        y.value = np.array([slope])
        found = minimum.minimise(1.0)
        assert found.value == pytest.approx(slope, abs=1e-8)
        assert not found.exact
    y.value = np.array([1.5])
    assert minimum.minimise(1.0).value == -np.inf


def test_equations_are_kept():
    # min |x|^2 / 2 + y'x subject to e'x = 1: x = (1 + e'y) / 2 e - y for two unknowns
    x, y = cp.Variable(2), cp.Parameter(2)
    minimum = ParametricMinimum(cp.Problem(cp.Minimize(cp.sum_squares(x) / 2 + y @ x), [cp.sum(x) == 1]))
    y.value = np.array([3.0, -1.0])
    minimum.minimise(3.0)
    np.testing.assert_allclose(x.value, [(1 + 2) / 2 - 3, (1 + 2) / 2 + 1], atol=1e-10)


@pytest.mark.parametrize("name", sorted(oracle.TABLE))
def test_the_dual_function_is_the_typed_dual_at_any_multipliers(name):
    # the definition of a dual, computed from the primal alone, against the oracle's formula
    S, R = oracle.matrices(3)
    rng = np.random.default_rng(0)
    for p in oracle.settings(name):
        formulation, h = load(name)(**p), oracle.TABLE[name](p)
        primal, dual = (formulation.program(form, S, R) for form in ("primal", "dual"))
        lagrangian, domain = Lagrangian(primal, list(dual.multipliers)), DualDomain(dual)
        low, high = max(h.lower, -2 * p["C2"]), min(h.upper, 2 * p["C2"])
        a = rng.uniform(low, high, size=len(R))
        multipliers = domain.multipliers(a)
        found = lagrangian.infimum(multipliers)
        assert found.value == pytest.approx(oracle.dual_value(name, p, S, R, a), rel=1e-7, abs=1e-9 * found.scale)
        if np.isfinite(h.upper):  # beyond the bound: unbounded, or a multiplier of an inequality is negative
            outside = domain.multipliers(np.where(np.arange(len(R)) == 0, h.upper + 0.1 * p["C2"], a))
            negative = lagrangian.most_negative(outside)[1]
            assert negative < 0 or lagrangian.infimum(outside).value == -np.inf


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_same_form_whatever_the_solver_stores(solver):
    # a primal-dual pair of each solver, scored on its own stored form: the objective values must be the program's
    S, R = oracle.matrices(4)
    for name in ("hnpsvm", "ls_twsvm", "l1_ls_twsvm"):
        p = oracle.params(name, 0.5, 2.0)
        found = solve_program(load(name)(**p).program("primal", S, R), solver)
        assert found.residuals.primal_value == pytest.approx(found.value, rel=1e-5)
        assert found.residuals.dual_value == pytest.approx(oracle.optimum(name, p, S, R).value, rel=1e-3)


class Logistic(Loss):
    """log(1 + exp(1 - t)), what a person tries first: no conjugate declared, so the conic dual stands in."""

    def value(self, t):
        return cp.logistic(1 - t)


class LogisticWithConjugate(Logistic):
    def conjugate(self, v):
        return v - cp.entr(-v) - cp.entr(1 + v), [v >= -1, v <= 0]


@pytest.mark.parametrize("loss", [Logistic, LogisticWithConjugate])
def test_a_logistic_loss_is_verified(loss):
    answer = verify(loss, solvers=["clarabel", "ecos"], max_planes=1)
    assert answer.passed, answer.diagnosis
    (conic,) = [row for row in answer.rows if row.check == "conic dual" and " at " not in row.meaning]
    assert conic.status == "pass"
    assert not [row for row in answer.rows if row.solver == "ecos" and row.status == "solver"]
    assert np.isfinite(conic.value)
