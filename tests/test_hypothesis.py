"""Random small instances, degenerate ones among them: the fast solver's answer holds in four independent ways."""

from functools import cache

import numpy as np
import oracle
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npsvm_cvx import load
from npsvm_cvx.compile import compile
from npsvm_cvx.instance import ACCURATE
from npsvm_cvx.lagrangian import DualDomain
from npsvm_cvx.planes import class_matrices, decide, distances
from npsvm_cvx.solvers import solve_program
from npsvm_cvx.sor import sor
from npsvm_cvx.terms import Terms
from npsvm_cvx.working_set import factor_of

FEW = settings(deadline=None, derandomize=True, max_examples=15, suppress_health_check=list(HealthCheck))
MANY = settings(deadline=None, derandomize=True, max_examples=150, suppress_health_check=list(HealthCheck))


@st.composite
def rows(draw):
    """Near and margin rows: few, of any scale, and degenerate in one of the ways data are."""
    m, n, d = draw(st.integers(1, 8)), draw(st.integers(1, 8)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = 10.0 ** draw(st.integers(-3, 3))
    near, margin = scale * rng.normal(size=(m, d)), scale * (rng.normal(size=(n, d)) + draw(st.sampled_from([0, 1, 5])))
    way = draw(
        st.sampled_from(["plain", "integers", "repeated rows", "constant column", "copied column", "shared rows"])
    )
    if way == "integers":  # ties
        near, margin = np.round(near / scale) * scale, np.round(margin / scale) * scale
    elif way == "repeated rows":
        near, margin = near[[0] * m], margin[np.arange(n) // 2]
    elif way == "constant column":
        near[:, 0] = margin[:, 0] = scale
    elif way == "copied column":
        near, margin = (np.column_stack([M, M[:, 0]]) for M in (near, margin))
    elif way == "shared rows":  # the classes overlap exactly
        margin[: min(m, n)] = near[: min(m, n)]
    sign = draw(st.sampled_from([1.0, -1.0]))
    return np.column_stack([near, np.ones(m)]), sign * np.column_stack([margin, np.ones(n)])


WEIGHTS = [(1.0, 1.0), (2**-8, 2**8), (2**-8, 1.0), (1.0, 2**8), (10.0, 0.01)]


@cache
def compiled(name, corner, own):
    p = oracle.params(name, *WEIGHTS[corner], **dict(own))
    return p, load(name)(**p), compile(load(name)(**p))


@pytest.mark.parametrize("name", oracle.NAMES)
@FEW
@given(data=st.data())
def test_the_fast_solver_on_random_instances(name, data):
    S, R = data.draw(rows())
    corner = data.draw(st.integers(0, len(WEIGHTS) - 1))
    own = tuple((key, data.draw(st.sampled_from(values))) for key, values in oracle.OWN.get(name, {}).items())
    p, formulation, arrays = compiled(name, corner, own)
    result, plane = arrays.solve(S, R, tol=1e-9, time_limit=5.0)

    # it closes its gap, to what margins can be accurate to: t = F (F'a) for whitened rows F (and G z for the linear
    # program), each sum with a rounding of its own
    F = factor_of(arrays.problem(S, R)).whiten(R) if name != "l1_ls_twsvm" else np.zeros((len(R), 1))
    a = np.abs(result.a[: len(R)])
    margins = np.abs(F) @ (np.abs(F).T @ a) + np.abs(R) @ np.abs(plane) + 1
    slope = float(np.abs(R @ plane - 1).max() + 1)  # of the steepest loss here, over C2
    rounding = 1e-13 * (p["C2"] * slope * float(margins.sum()) + float((np.abs(S) @ np.abs(plane)).sum()))
    assert result.gap >= 0
    assert result.gap <= 1e-7 * abs(result.primal) + rounding, result.status
    # its plane is worth what it says, by plain NumPy
    worth = oracle.primal_value(name, p, S, R, plane)
    assert worth == pytest.approx(result.primal, rel=1e-6, abs=rounding)
    # an interior-point solver on the declared primal finds the same optimum
    slow = solve_program(formulation.program("primal", S, R), "clarabel")
    if slow.error <= ACCURATE:
        slack = (1e-6 + slow.error) * abs(slow.value) + rounding
        assert result.dual - slack <= slow.value <= result.primal + slack
        assert result.primal - slow.value <= result.gap + slack
    # weak duality: SOR's multipliers in the declared dual, by CVXPY, do not exceed the primal
    dual = formulation.program("dual", S, R)
    theta = result.a
    domain = DualDomain(dual) if name != "l1_ls_twsvm" else None
    if domain is not None:
        assert max(domain.violations(theta).values(), default=0.0) <= 1e-9 * p["C2"]
        assert domain.objective(theta) == pytest.approx(result.dual, rel=1e-6, abs=rounding)
        assert domain.objective(theta) <= worth + 1e-7 * abs(worth) + rounding


@st.composite
def box_problems(draw):
    """Whitened rows with boxes of every kind: two-sided, one-sided, free with curvature, empty of width."""
    n, d = draw(st.integers(1, 10)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    F = rng.normal(size=(n, d)) * 10.0 ** draw(st.integers(-3, 3))
    if draw(st.booleans()):
        F[draw(st.integers(0, n - 1))] = 0.0
    if draw(st.booleans()):
        F = F[rng.integers(0, n, size=n)]
    lower, upper = -rng.exponential(size=n), rng.exponential(size=n)
    curvature = np.where(rng.random(n) < 0.5, 0.0, rng.exponential(size=n))
    kind = rng.integers(0, 4, size=n)
    lower[(kind == 1) & (curvature > 0)] = -np.inf
    upper[(kind == 2) & (curvature > 0)] = np.inf
    lower = np.where(kind == 3, upper, lower)
    lower[~np.isfinite(lower) & ~(curvature > 0)] = -1.0
    return F, Terms.of(n, rng.normal(size=n), curvature, lower, upper)


@MANY
@given(problem=box_problems(), relaxation=st.sampled_from([0.3, 1.0, 1.7]), seed=st.integers(0, 3))
def test_any_box_is_solved_inside_it_and_the_brackets_add_up(problem, relaxation, seed):
    F, terms = problem
    result = sor(F, terms, relaxation=relaxation, random_state=seed, tol=1e-9)
    assert (result.a >= terms.lower).all()
    assert (result.a <= terms.upper).all()
    assert result.gap >= 0
    t = F @ result.w
    brackets = terms.phi(t) + terms.linear * result.a + terms.curvature * result.a**2 / 2 + result.a * t
    scale = np.abs(terms.phi(t)).sum() + np.abs(terms.linear * result.a).sum() + np.abs(result.a * t).sum() + 1e-300
    assert brackets.sum() == pytest.approx(result.gap, abs=1e-9 * scale)
    assert result.gap <= 1e-8 * scale, result.status


@MANY
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 9),
    classes=st.integers(2, 4),
    scheme=st.sampled_from(["farthest", "nearest"]),
)
def test_class_matrices_hold_every_row_once(seed, n, classes, scheme):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(classes), rng.integers(0, classes, size=n)])
    X = np.column_stack([rng.normal(size=(len(y), 2)), np.ones(len(y))])
    for k in range(classes):
        S, R = class_matrices(X, y, k, scheme)
        own, others = (R, S) if scheme == "farthest" else (S, -R)
        np.testing.assert_array_equal(own, X[y == k])
        np.testing.assert_array_equal(others, X[y != k])


@MANY
@given(seed=st.integers(0, 2**32 - 1), classes=st.integers(2, 5))
def test_decisions_do_not_depend_on_signs_or_on_the_order_of_samples(seed, classes):
    rng = np.random.default_rng(seed)
    X, planes = rng.normal(size=(7, 3)), rng.normal(size=(classes, 3))
    signs = rng.choice([-1.0, 1.0], size=(classes, 1))
    order = rng.permutation(7)
    for scheme in ("farthest", "nearest"):
        here = decide(distances(X, planes), scheme)
        np.testing.assert_array_equal(decide(distances(X, signs * planes), scheme), here)
        np.testing.assert_array_equal(decide(distances(X[order], planes), scheme), here[order])
