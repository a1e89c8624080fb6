"""Coordinate steps by a loss's proximal map: against SOR where both apply, and honest where the map is wrong."""

import cvxpy as cp
import numpy as np
import pytest

from npsvm_cvx import Framework, Loss, load, solve
from npsvm_cvx.compile import compile
from npsvm_cvx.forms import BoxQP, Steps
from npsvm_cvx.solvers import solve_program
from npsvm_cvx.sor import sor
from npsvm_cvx.steps import coordinate_steps
from npsvm_cvx.terms import Terms
from npsvm_cvx.verification import verify


def hinge(t):
    return np.maximum(1 - t, 0)


def prox(t, s):
    # of the hinge loss: shifted by s where it is below 1 - s, held at the bend up to 1, left alone beyond
    return np.where(t < 1 - s, t + s, np.maximum(t, 1))


def rows(n=30, d=4, seed=0):
    return np.random.default_rng(seed).normal(0.5, 1, (n, d))


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_the_hinge_loss_is_solved_as_sor_solves_it(C):
    F = rows()
    steps = coordinate_steps(F, hinge, prox, np.full(len(F), C), tol=1e-8)
    exact = sor(F, Terms.of(len(F), -1.0, 0.0, 0.0, C), tol=1e-12)
    assert steps.converged
    assert steps.primal == pytest.approx(exact.primal, rel=1e-7)
    np.testing.assert_allclose(steps.w, exact.w, atol=1e-3)
    assert steps.a.min() >= -1e-12
    assert steps.a.max() <= C + 1e-9


def test_a_weight_of_two_is_a_row_twice_and_a_row_of_zeros_costs_its_loss():
    F = rows(8)
    twice = coordinate_steps(np.vstack([F, F[:1]]), hinge, prox, np.ones(9), tol=1e-10)
    weighted = coordinate_steps(F, hinge, prox, np.r_[2.0, np.ones(7)], tol=1e-10)
    np.testing.assert_allclose(twice.primal, weighted.primal, rtol=1e-8)
    still = coordinate_steps(np.vstack([F, np.zeros((1, 4))]), hinge, prox, np.ones(9), tol=1e-10)
    alone = coordinate_steps(F, hinge, prox, np.ones(8), tol=1e-10)
    assert still.primal == pytest.approx(alone.primal + 1.0, rel=1e-8)  # the hinge loss at margin zero


def test_a_wrong_map_is_not_called_converged():
    result = coordinate_steps(rows(), hinge, lambda t, s: t + 0.5 * s, np.ones(30), max_sweeps=200)
    assert not result.converged
    assert result.relative_gap > 1e-3
    with pytest.raises(ValueError, match="no finite number at t ="):
        coordinate_steps(rows(), hinge, lambda t, s: t * np.nan, np.ones(30))


def test_limits_are_kept():
    F = rows(200, 20)
    assert coordinate_steps(F, hinge, prox, np.ones(200), tol=0.0, max_sweeps=3).sweeps == 3
    stopped = coordinate_steps(F, hinge, prox, np.ones(200), tol=0.0, time_limit=0.0)
    assert (stopped.status, stopped.sweeps) == ("time limit", 1)


class Exponential(Loss):
    """exp(-k t): its step is W(s k^2 exp(-k t)) / k beyond t, W Lambert's function."""

    domain = {"k": "(0, inf)"}

    def __init__(self, k=0.7):
        self.k = k

    def value(self, t):
        return cp.exp(-self.k * t)

    def prox(self, t, s):
        # W(exp(x)) by Newton's method on w + log w = x
        x = np.log(s) + 2 * np.log(self.k) - self.k * t
        w = np.where(x > 1, np.maximum(x, 1.0), np.exp(np.minimum(x, 1.0)))
        for _ in range(60):
            w = np.maximum(w * (1 + x - np.log(w)) / (1 + w), 1e-300)
        return t + w / self.k


def test_a_loss_beyond_quadratics_is_solved_to_what_the_exponential_cone_gives():
    formulation = Framework(Exponential(), C1=0.5, C2=2.0)
    assert isinstance(compile(formulation), Steps)
    rng = np.random.default_rng(0)
    S, R = (np.column_stack([rng.normal(m, 1, (20, 2)), np.ones(20)]) for m in (0.0, 1.0))
    found = solve(formulation, S, R, tol=1e-10)
    wanted = solve_program(formulation.program("primal", S, R), "clarabel")
    assert found.converged
    assert found.certificate is None  # a proof needs the conjugate's numbers
    assert found.primal == pytest.approx(wanted.value, rel=1e-8)
    np.testing.assert_allclose(found.plane, wanted.plane, atol=1e-5)


def test_verification_sees_a_wrong_map():
    class Half(Exponential):
        def prox(self, t, s):
            return super().prox(t, s / 2)

    assert verify(Exponential, solvers=["clarabel"], max_planes=1).passed
    answer = verify(Half, solvers=["clarabel"], max_planes=1)
    assert not answer.passed
    assert answer.diagnosis.startswith("proximal map: prox(")


def test_a_conjugate_of_one_piece_goes_before_a_map():
    class Both(Loss):
        def value(self, t):
            return cp.pos(1 - t)

        prox = staticmethod(prox)

    assert isinstance(compile(Framework(Both())), BoxQP)
    assert compile(Framework(Both())) == compile(load("hnpsvm")())
