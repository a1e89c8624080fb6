"""What goes wrong in this kind of job, each kind with its input and its right value.

The numbers of the toy instances are exact: TOY1 has the plane (3, 3, -13)/19 and the optimum 3/38, TOY2 (the same
rows, C2 = 1/20) the optimum 63/800 with every multiplier at its bound.  Those of BLOB40, BLOB100 and LP30 were
computed with several solvers that agree to the digits given.
"""

import warnings
from fractions import Fraction

import cvxpy as cp
import numpy as np
import oracle
import pytest
import scipy.sparse as sp

from npsvm_cvx import Formulation, Program, checks, load, solve
from npsvm_cvx.conic import Cones, StandardForm, standard_form
from npsvm_cvx.errors import FormulationError, NPSVMError
from npsvm_cvx.instance import ACCURATE, Instance
from npsvm_cvx.linalg import Factor
from npsvm_cvx.modeling import multiplier_variable, plane_from_dual, plane_variable, slack_variable, whiten
from npsvm_cvx.planes import Rows, ZeroNormalWarning, class_matrices, decide, distances
from npsvm_cvx.proximal import proximal_point
from npsvm_cvx.solvers import SOLVERS, options_for, solve_program
from npsvm_cvx.sor import sor
from npsvm_cvx.terms import Terms
from npsvm_cvx.verification import verify


def ones(X):
    return np.column_stack([X, np.ones(len(X))])


A = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 3.0]])
B = np.array([[-1.0, -1.0], [-2.0, 0.0], [0.0, -2.0]])
B3 = np.array([[-1.0, -1.0], [-2.0, 0.0], [0.0, -3.0]])  # TOY3: the rows of B lie on one line
S, R = ones(A), -ones(B)  # the plane near A
TOY1 = np.array([3.0, 3.0, -13.0]) / 19


def blob40():
    rng = np.random.default_rng(0)
    return rng.normal([1, 1], 1, (40, 2)), rng.normal([-1, -1], 1, (40, 2))


def blob100():
    rng = np.random.default_rng(0)
    return rng.normal(1, 1, (100, 5)), rng.normal(-1, 1, (100, 5))


BLOB40 = 5.09459793094
BLOB100 = 5.076034938836
TWSVM = load("twsvm")(C2=1.0, eps=0.0)


# --- 01: a hinge that one solver is handed wrong bounds for ---------------------------------------

X01 = np.array([[1.0, 0.0], [2.0, 1.0], [-1.0, 0.0], [-3.0, 1.0]])
Y01 = np.array([1.0, 1.0, -1.0, -1.0])


@pytest.mark.parametrize("solver", SOLVERS)
def test_01_labels_folded_into_the_rows_and_explicit_slacks(solver):
    # min sum xi + |w|_1 / 10 has the value 1/10 at w = (1, 0), exactly: every margin is met at the least |w|_1
    w, xi = cp.Variable(2), cp.Variable(4)
    constraints = {"margin": (Y01[:, None] * X01) @ w + xi >= 1, "slack": xi >= 0}
    program = Program(cp.Minimize(cp.sum(xi) + 0.1 * cp.norm1(w)), constraints, plane=w)
    for _ in range(2):  # the second time the variables hold a value already
        found = solve_program(program, solver)
        assert found.error <= ACCURATE
        assert found.value == pytest.approx(0.1, rel=1e-6)
        np.testing.assert_allclose(found.plane, [1, 0], atol=1e-6)


def test_01_an_optimal_of_another_problem_is_not_believed():
    # written with multiply(), one solver is handed the wrong bounds and calls w = 0 with value 4 optimal; a claim is
    # accepted by residuals alone, so either the answer is right or its error says that it is not
    w = cp.Variable(2)
    hinge = cp.sum(cp.pos(1 - cp.multiply(Y01, X01 @ w)))
    program = Program(cp.Minimize(hinge + 0.1 * cp.norm1(w)), {}, plane=w)
    for solver in SOLVERS:
        found = solve_program(program, solver)
        assert found.error > 0.1 or found.value == pytest.approx(0.1, rel=1e-6), solver


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", oracle.NAMES)
def test_01_every_model_with_every_solver(name, solver):
    near, margin = oracle.matrices(5, 12, 9)
    p = oracle.params(name, 0.5, 2.0)
    best = oracle.optimum(name, p, near, margin)
    for form in ("primal", "dual"):
        found = solve_program(load(name)(**p).program(form, near, margin), solver)
        accepted = found.error <= ACCURATE
        if accepted:
            assert found.value == pytest.approx(best.value, rel=1e-5), form
        # only OSQP on the linear program, and HiGHS's quadratic solver, may fall short, and must then say so
        assert accepted or solver in ("osqp", "highs"), (form, found.error)


# --- 02: a quadratic form that rounding makes indefinite ------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_02_the_dual_by_its_factor(solver):
    near, far = blob100()
    dual = TWSVM.program("dual", ones(near), -ones(far))
    found = solve_program(dual, solver)
    assert found.value == pytest.approx(BLOB100, rel=3e-7)
    with pytest.raises(cp.DCPError):  # the product handed to quad_form, for contrast
        F = whiten(ones(near), -ones(far), 0.0)
        a = cp.Variable(len(far))
        cp.Problem(cp.Minimize(cp.quad_form(a, F @ F.T)), [a >= 1]).solve(solver="CLARABEL")


def test_02_sor_agrees_on_both_sizes():
    near, far = blob100()
    assert solve(TWSVM, ones(near), -ones(far), tol=1e-11).primal == pytest.approx(BLOB100, rel=1e-10)
    near, far = blob40()
    # C2 = 1e4 on overlapping classes
    hard = solve(load("twsvm")(C2=1e4, eps=0.0), ones(near), -ones(far), tol=1e-11)
    assert hard.primal == pytest.approx(8.27998463107, rel=1e-9)


# --- 03, 04: shapes that broadcast, and products that are inner products --------------------------

X03 = np.array([[1.0, 2.0], [2.0, 1.0], [-1.0, -1.0], [-2.0, 0.0]])
Y03 = np.array([1.0, 1.0, -1.0, -1.0])


def test_03_the_soft_margin_problem_these_shapes_spoil():
    # 1/2 |w|^2 + sum xi is this family's problem for S = [I 0]: w = (2/5, 2/5), b = -1/5, value 4/25
    found = solve(TWSVM, np.eye(3)[:2], Y03[:, None] * ones(X03), solver="clarabel")
    np.testing.assert_allclose(found.plane, [0.4, 0.4, -0.2], atol=1e-7)
    assert found.primal == pytest.approx(4 / 25, rel=1e-7)


def test_03_a_column_of_labels_is_one_label_a_row():
    X, y = np.vstack([A, B3]), np.repeat([1, 0], 3)
    options = {"solvers": ["clarabel"], "kernel": "linear"}
    flat, column = (verify("hnpsvm", (X, labels), **options) for labels in (y, y[:, None]))
    assert flat.passed
    assert flat.to_frame().equals(column.to_frame())
    with pytest.raises(NPSVMError, match=r"data: y .*\(6, 2\)"):
        verify("hnpsvm", (X, np.column_stack([y, y])), **options)


class ColumnSlack(Formulation):
    """A slack of shape (l, 1) beside margins of shape (l,): CVXPY broadcasts them to (l, l)."""

    def primal(self, S, R):
        z, xi = plane_variable(S), cp.Variable((len(R), 1))
        objective = cp.sum_squares(S @ z) / 2 + cp.sum_squares(z) / 2 + cp.sum(xi)
        return Program(cp.Minimize(objective), {"margin": R @ z + xi >= 1, "slack": xi >= 0}, plane=z)


def test_03_a_broadcast_constraint_is_refused_by_name():
    near, margin = oracle.matrices()
    with pytest.raises(FormulationError, match=r"ColumnSlack.primal: constraint \[margin\] has shape \(5, 5\)"):
        ColumnSlack().program("primal", near, margin)
    answer = verify(ColumnSlack(), solvers=["clarabel"])
    assert not answer.passed
    assert "[margin] has shape (20, 20)" in answer.diagnosis


class StarMargin(Formulation):
    """``y * expression``: an inner product, whatever it looks like."""

    def primal(self, S, R):
        z, xi = plane_variable(S), slack_variable(R)
        objective = cp.sum_squares(S @ z) / 2 + cp.sum_squares(z) / 2 + cp.sum(xi)
        margin = np.ones(len(R)) * (R @ z) + xi >= 1
        return Program(cp.Minimize(objective), {"margin": margin, "slack": xi >= 0}, plane=z)


def test_04_an_inner_product_by_star_is_an_error_in_this_suite():
    # warnings are errors here, so no built-in file can hold one unnoticed (tests/test_formulations.py scans them too)
    near, margin = oracle.matrices()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(FormulationError, match=r"StarMargin.primal raised \w*Warning: "):
            StarMargin().program("primal", near, margin)


# --- 05: label encodings --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [
        np.array([-1, 1]), np.array([0, 1]), np.array([1, 2]), np.array(["neg", "pos"]), np.array([False, True]),
        np.array([0, 1], dtype=np.uint8), np.array([0.5, 1.5]), np.array(["neg", "pos"], dtype=object),
    ],
)  # fmt: skip
def test_05_the_same_plane_for_every_encoding(labels):
    rows, y = ones(np.vstack([B, A])), labels[[0, 0, 0, 1, 1, 1]]
    near, margin = class_matrices(rows, y, labels[1], "nearest")
    np.testing.assert_array_equal(near, S)
    np.testing.assert_array_equal(margin, R)
    np.testing.assert_allclose(solve(TWSVM, near, margin, tol=1e-12).plane, TOY1, atol=1e-12)


def test_05_one_class_is_named():
    rows = ones(A)
    with pytest.raises(NPSVMError, match="y: class 1 holds 3 of 3 samples; two classes are needed"):
        class_matrices(rows, [1, 1, 1], 1, "farthest")
    with pytest.raises(NPSVMError, match="y: class 7 holds 0 of 3"):
        class_matrices(rows, [1, 2, 1], 7, "nearest")
    with pytest.raises(NPSVMError, match="data: y holds one class"):
        verify("hnpsvm", (A, [1, 1, 1]))


# --- 06: singular and nearly singular S'S ---------------------------------------------------------


def test_06_a_singular_matrix_is_an_error_that_gives_the_rank():
    # the three rows of B lie on one line: rank 2 of 3
    with pytest.raises(NPSVMError, match="rank 2 of 3 columns"):
        solve(TWSVM, ones(B), ones(A))
    with pytest.raises(NPSVMError, match="rank 3 of 4 columns"):  # a constant column beside the ones
        solve(TWSVM, ones(np.column_stack([A, np.full(3, 2.0)])), -ones(np.column_stack([B, np.full(3, 2.0)])))
    with pytest.raises(NPSVMError, match="larger ridge"):
        Factor(np.zeros((4, 2)), 0.0)


@pytest.mark.parametrize("eps", [1e-3, 1e-6, 1.0])
def test_06_a_duplicate_feature_shares_its_weight(eps):
    # w1 = w4 by symmetry, and substituting v = sqrt(2) w1 gives the problem with the one column times sqrt(2):
    # an exact reduction to a problem of full rank
    rng = np.random.default_rng(1)
    near, far = rng.normal(0.5, 1, (30, 3)), rng.normal(-0.5, 1, (30, 3))
    twice = [np.column_stack([M, M[:, 0]]) for M in (near, far)]
    merged = [M * [np.sqrt(2), 1, 1] for M in (near, far)]
    formulation = load("twsvm")(C2=1.0, eps=eps)
    doubled, single = (solve(formulation, ones(a), -ones(b), tol=1e-12) for a, b in (twice, merged))
    assert doubled.primal == pytest.approx(single.primal, rel=1e-9)
    w = doubled.plane
    assert w[0] == pytest.approx(w[3], rel=1e-6)
    np.testing.assert_allclose(w[[0, 1, 2, 4]] * [np.sqrt(2), 1, 1, 1], single.plane, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("noise", [1e-7, 1e-8])
def test_06_a_near_copy_of_a_feature_stays_positive_semidefinite(noise):
    # the inverse formed outright has eigenvalues of -2e-4 (noise 1e-7) and -0.06 (1e-8); the factor cannot
    rng = np.random.default_rng(2)
    base = rng.normal(size=(50, 3))
    near = ones(np.column_stack([base, base[:, 0] + noise * rng.normal(size=50)]))
    F = Factor(near, 1e-3).whiten(near)
    # F'F summed over near rows: S M^-1 S' has eigenvalues in [0, 1), exactly, since M = S'S + ridge
    values = np.linalg.eigvalsh(F @ F.T)
    assert values.min() >= -1e-14
    assert values.max() < 1


def test_06_the_factor_against_exact_rational_arithmetic():
    # a nearly singular 3 x 3 case solved in fractions: rows (1, 1, 1), (1, 1 + 2^-20, 1), (2, 2, 3), ridge 2^-30
    rows = [[1, 1, 1], [1, 1 + Fraction(1, 2**20), 1], [2, 2, 3]]
    ridge, right = Fraction(1, 2**30), [1, 2, 3]
    M = [[sum(r[i] * r[j] for r in rows) + (ridge if i == j else 0) for j in range(3)] for i in range(3)]

    def det(m):
        return (
            m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1])
            - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
            + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
        )

    exact = [
        det([[right[i] if j == k else M[i][j] for j in range(3)] for i in range(3)]) / det(M) for k in range(3)
    ]  # Cramer's rule
    found = Factor(np.array(rows, dtype=float), float(ridge)).solve(np.array(right, dtype=float))
    # condition number of the stack about 1e5, so of M about 1e10: a backward stable solve keeps five digits or more
    np.testing.assert_allclose(found, [float(x) for x in exact], rtol=1e-5)


def test_06_kernel_rows_of_low_rank_need_a_ridge_and_with_one_are_exact():
    # 30 training points, 61 columns: S has rank 30 at most
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    rows, y = Rows.of("rbf", X, gamma=0.5)(X), np.repeat([0, 1], 30)
    near, margin = class_matrices(rows, y, 0, "nearest")
    with pytest.raises(NPSVMError, match="singular"):
        solve(TWSVM, near, margin)
    result = solve(load("twsvm")(C2=1.0, eps=1e-3), near, margin, tol=1e-10)
    assert result.converged
    p = {"C2": 1.0, "eps": 1e-3}
    assert oracle.primal_value("twsvm", p, near, margin, result.plane) == pytest.approx(result.dual, rel=1e-8)


# --- 07: "optimal" is not accuracy ----------------------------------------------------------------

VARIANTS = {"as is": lambda M: M, "scaled": lambda M: M * [1e-3, 1e3], "shifted": lambda M: M + 1000}


@pytest.mark.parametrize("variant", VARIANTS)
def test_07_without_a_ridge_the_optimum_is_invariant(variant):
    near, margin = (VARIANTS[variant](M) for M in blob40())
    near, margin = ones(near), -ones(margin)
    fast = solve(TWSVM, near, margin, tol=1e-11)
    assert fast.converged
    assert fast.primal == pytest.approx(BLOB40, rel=2e-11)
    assert oracle.primal_value("twsvm", {"C2": 1.0, "eps": 0.0}, near, margin, fast.plane) == pytest.approx(
        BLOB40, rel=1e-9
    )
    accepted = 0
    for solver in SOLVERS:
        for form in ("primal", "dual"):
            found = solve_program(TWSVM.program(form, near, margin), solver)
            if found.error <= ACCURATE:  # by its own residuals, not by its status
                accepted += 1
                assert found.value == pytest.approx(BLOB40, rel=2e-6), (solver, form)
    assert accepted >= 6


# --- 08: limits reached ---------------------------------------------------------------------------


@pytest.mark.parametrize(("solver", "limit"), [("osqp", 1), ("clarabel", 2), ("ecos", 2), ("scs", 2), ("highs", 1)])
def test_08_a_solver_that_stops_early_says_so_and_is_not_accepted(solver, limit):
    # whatever it leaves behind: -389, 4.10, 16.6, 153 and 20 where the optimum is 5.09
    near, margin = (ones(M) for M in blob40())
    found = solve_program(TWSVM.program("primal", near, -margin), solver, {"max_iter": limit})
    assert found.status == "stopped early"
    assert found.error > 1e-2
    result = solve(TWSVM, near, -margin, solver=solver, max_iter=limit)
    assert not result.converged
    assert result.status == "stopped early"


@pytest.mark.parametrize("solver", ["osqp", "clarabel", "ecos"])
def test_08_verification_blames_the_solver_not_the_formulation(solver):
    near, margin = (ones(M) for M in blob40())
    stopped = Instance(TWSVM, near, -margin, "1", (solver,), options={"max_iter": 1})
    rows = [row for check in checks.CHECKS for row in check(stopped)]
    assert [row for row in rows if row.status == "fail"] == []
    needs_a_solver = {"strong duality", "conic dual", "KKT", "reductions", "invariances", "weak duality"}
    found = [row for row in rows if row.check in needs_a_solver]
    assert {row.check for row in found} == needs_a_solver
    assert all(row.status in ("solver", "skip") for row in found)


# --- 09: sticky options ---------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_09_loose_then_tight_is_tight_from_scratch(solver):
    near, margin = (ones(M) for M in blob40())
    used = TWSVM.program("primal", near, -margin)
    solve_program(used, solver, {"tol": 1e-2, "max_iter": 3})
    again = solve_program(used, solver)
    fresh = solve_program(TWSVM.program("primal", near, -margin), solver)
    assert again.value == fresh.value
    np.testing.assert_array_equal(again.plane, fresh.plane)


# --- 11: a linear program -------------------------------------------------------------------------


def lp30():
    rng = np.random.default_rng(0)
    return rng.normal(0.5, 1, (30, 5)), rng.normal(-0.5, 1, (30, 5))


LP30 = 11.906068827672


@pytest.mark.parametrize("solver", SOLVERS)
def test_11_the_linear_programme_by_every_solver(solver):
    near, far = lp30()
    z, xi = cp.Variable(6), cp.Variable(30)
    objective = cp.norm1(ones(near) @ z) + cp.sum(xi) + 0.1 * cp.norm1(z[:5])
    found = solve_program(
        Program(cp.Minimize(objective), {"margin": -ones(far) @ z + xi >= 1, "slack": xi >= 0}, plane=z), solver
    )
    if found.error <= ACCURATE:
        assert found.value == pytest.approx(LP30, rel=1e-7)
    assert found.error <= ACCURATE or solver == "osqp"


# --- 12, 13: signs of multipliers, and those that attributes do not have --------------------------


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("spelling", "multiplier"),
    [
        # min 3 x0 + 5 x1, x >= 0, x0 + x1 = 2: the optimum 6, and raising the 2 costs 3 a unit; a multiplier is of
        # lhs - rhs, so the two equations have opposite signs and inequalities nonnegative ones
        (lambda x: cp.sum(x) == 2, -3.0), (lambda x: 2 - cp.sum(x) == 0, 3.0), (lambda x: cp.sum(x) >= 2, 3.0),
        (lambda x: 2 <= cp.sum(x), 3.0), (lambda x: 2 - cp.sum(x) <= 0, 3.0),  # noqa: SIM300
    ],
)  # fmt: skip
def test_12_five_spellings_of_one_constraint(solver, spelling, multiplier):
    x = cp.Variable(2)
    program = Program(cp.Minimize(3 * x[0] + 5 * x[1]), {"sum": spelling(x), "sign": x >= 0}, plane=x)
    found = solve_program(program, solver)
    assert found.error <= ACCURATE
    assert float(found.multipliers["sum"]) == pytest.approx(multiplier, rel=1e-5)
    np.testing.assert_allclose(found.multipliers["sign"], [0, 2], atol=1e-5)


@pytest.mark.parametrize("solver", SOLVERS)
def test_12_toy2_multipliers_have_the_papers_signs(solver):
    # C2 = 1/20: u = (0.15, 0.15, -0.65), a = (1/20, 1/20, 1/20), beta = 0, optimum 63/800, all exact
    formulation = load("twsvm")(C2=0.05, eps=0.0)
    found = solve_program(formulation.program("primal", S, R), solver)
    a, beta = found.multipliers["margin"], found.multipliers["slack"]
    assert found.value == pytest.approx(63 / 800, rel=1e-6)
    np.testing.assert_allclose(found.plane, [0.15, 0.15, -0.65], atol=1e-5)
    np.testing.assert_allclose(a, 0.05, rtol=1e-5)
    np.testing.assert_allclose(a + beta, 0.05, rtol=1e-5)
    # stationarity of the Lagrangian in u: S'S u = R'a (the wrong sign leaves 0.3)
    np.testing.assert_allclose(S.T @ (S @ found.plane), R.T @ a, atol=1e-5)
    declared = solve_program(formulation.program("dual", S, R), solver)
    np.testing.assert_allclose(declared.multipliers["margin"], a, atol=1e-6)
    np.testing.assert_allclose(declared.plane, found.plane, atol=1e-5)
    exact = solve(formulation, S, R, tol=1e-13)
    np.testing.assert_array_equal(exact.multipliers["a"], 0.05)


@pytest.mark.parametrize("solver", SOLVERS)
def test_12_an_equality_model(solver):
    # LS-TWSVM of TOY3 with c/2 |xi|^2, c = 2, so C2 = 1 here: u by the normal equations; multiplier c xi
    M = S.T @ S + 2 * ones(B3).T @ ones(B3)
    u = np.linalg.solve(M, -2 * ones(B3).T @ np.ones(3))
    np.testing.assert_allclose(u, [0.17461229, 0.12062033, -0.63986215], atol=5e-9)
    formulation = load("ls_twsvm")(C1=1e-9, C2=1.0)  # C1 must be positive; 1e-9 moves nothing in eight digits
    for form in ("primal", "dual"):
        found = solve_program(formulation.program(form, S, -ones(B3)), solver)
        np.testing.assert_allclose(found.plane, u, atol=5e-6)
        np.testing.assert_allclose(found.multipliers["margin"], [0.12981, 0.021827, -0.003446], atol=6e-6)


class Attribute(Formulation):
    """A slack whose sign is an attribute of its variable: legal CVXPY, and what most people write first."""

    def __init__(self, C1=1.0, C2=1.0):
        self.C1 = C1
        self.C2 = C2

    def primal(self, S, R):
        z, xi = plane_variable(S), cp.Variable(len(R), nonneg=True)
        objective = cp.sum_squares(S @ z) / 2 + self.C1 * cp.sum_squares(z) / 2 + self.C2 * cp.sum(xi)
        return Program(cp.Minimize(objective), {"margin": R @ z + xi >= 1}, plane=z)

    def dual(self, S, R):
        F, a = whiten(S, R, self.C1), multiplier_variable(R)
        return Program(
            cp.Maximize(cp.sum(a) - cp.sum_squares(F.T @ a) / 2),
            {"lower": a >= 0, "upper": a <= self.C2},
            multipliers={"margin": a},
            plane=plane_from_dual(S, R, self.C1, a),
        )


def test_13_an_attribute_is_refused_by_name_before_anything_misses_its_multiplier():
    near, margin = oracle.matrices()
    with pytest.raises(FormulationError, match=r"Attribute.primal: the variable \w+ is declared nonneg=True"):
        Attribute().program("primal", near, margin)
    answer = verify(Attribute(), solvers=["clarabel"], max_planes=1)
    assert not answer.passed
    assert [row.check for row in answer.rows if row.status == "fail"] == ["declaration"]
    assert "\n" not in answer.diagnosis


@pytest.mark.parametrize("solver", SOLVERS)
def test_13_a_bare_program_with_an_attribute_has_no_none_among_its_multipliers(solver):
    # min x s.t. x >= 0 by attribute and x <= 1 by constraint: the attribute's multiplier is absent, the other 0
    x = cp.Variable(1, nonneg=True)
    found = solve_program(Program(cp.Minimize(cp.sum(x)), {"high": x <= 1}, plane=x), solver)
    assert found.value == pytest.approx(0, abs=1e-6)
    assert list(found.multipliers) == ["high"]
    np.testing.assert_allclose(found.multipliers["high"], 0, atol=1e-6)


# --- 14, 15, 16: optimality conditions, gaps and scales -------------------------------------------


def qp14(scale=1.0):
    # min 1/2 x'Px + q'x, x0 + x1 = 1: x = (1/4, 3/4); Px + q = (15/8, 15/8), so the multiplier is -15/8
    P, q = scale * np.array([[2.0, 0.5], [0.5, 1.0]]), scale * np.ones(2)
    root = np.linalg.cholesky(P).T
    x = cp.Variable(2)
    return Program(cp.Minimize(cp.sum_squares(root @ x) / 2 + q @ x), {"sum": cp.sum(x) == 1}, plane=x), P, q


def test_14_residuals_by_the_right_formula():
    _, P, q = qp14()
    form = StandardForm(sp.csc_array(P), q, sp.csc_array([[1.0, 1.0]]), np.ones(1), 0.0, Cones(1, 0))
    x, y = np.array([0.25, 0.75]), np.array([-1.875])
    right = form.residuals(x, y)
    assert right.worst == pytest.approx(0.0, abs=1e-15)
    assert right.primal_value == right.dual_value == pytest.approx(0.4375 + 1)  # 1/2 x'Px = 7/16, q'x = 1
    # the usual mistakes: the multiplier's sign, the stationarity without Px, twice the multiplier
    assert form.residuals(x, -y).stationarity > 0.5
    assert form.residuals(x, np.array([-1.0])).stationarity > 0.2
    assert form.residuals(x, 2 * y).stationarity > 0.2
    assert form.residuals(x + 0.1, y).primal > 0.1


@pytest.mark.parametrize("solver", SOLVERS)
def test_14_doubling_the_objective_doubles_the_multiplier(solver):
    for scale in (1.0, 2.0):
        found = solve_program(qp14(scale)[0], solver)
        assert float(found.multipliers["sum"]) == pytest.approx(-1.875 * scale, rel=1e-5)
        np.testing.assert_allclose(found.plane, [0.25, 0.75], atol=1e-5)
    # min x^2 s.t. x >= 1: multiplier 2; without its half the multiplier would be 1
    x = cp.Variable(1)
    found = solve_program(Program(cp.Minimize(cp.sum_squares(x)), {"low": x >= 1}, plane=x), solver)
    assert float(found.multipliers["low"][0]) == pytest.approx(2.0, rel=1e-5)


def test_15_an_infeasible_multiplier_cannot_make_a_negative_gap():
    # TOY2 with a = 1/19, 5 % above its bound 1/20: primal - dual would be 63/800 - 3/38 = -3/15200
    assert Fraction(63, 800) - Fraction(3, 38) == Fraction(-3, 15200)
    F = Factor(S, 0.0).whiten(R)
    result = sor(F, Terms.of(3, -1.0, 0.0, 0.0, 0.05), start=np.full(3, 1 / 19), tol=1e-14)
    assert (result.a <= 0.05).all()
    assert result.gap >= 0
    assert result.gap <= 1e-16
    assert result.primal == pytest.approx(63 / 800, rel=1e-15)
    # and on the standard form the same pair is told by the cone, whatever its gap
    form = standard_form(load("twsvm")(C2=0.05, eps=0.0).program("primal", S, R).problem)
    solution = solve_program(load("twsvm")(C2=0.05, eps=0.0).program("primal", S, R), "clarabel")
    assert solution.residuals.cone <= 1e-12
    assert form.residuals(np.zeros(len(form.q)), -np.ones(len(form.b))).cone > 0.5


def test_16_the_four_numbers_are_reported_apart_and_relative():
    # min x^2 / 2 s.t. x >= 1e4, at x = lambda = 1e4 - 1e-3: stationary, infeasible by 1e-3, gap x (x - 1e4)
    form = StandardForm(sp.csc_array([[1.0]]), np.zeros(1), sp.csc_array([[-1.0]]), np.array([-1e4]), 0.0, Cones(0, 1))
    x = np.array([1e4 - 1e-3])
    r = form.residuals(x, x)
    assert r.stationarity == 0.0
    assert r.cone == 0.0
    assert r.primal == pytest.approx(1e-7, rel=1e-6)  # 1e-3 of 1e4
    assert r.gap == pytest.approx(2e-7, rel=1e-6)  # 10 of 5e7
    assert r.complementarity == pytest.approx(2e-7, rel=1e-6)
    assert r.worst == max(r.gap, r.complementarity)
    assert r.primal_value < r.dual_value  # the sign is not lost


# --- 18: multipliers that are not unique ----------------------------------------------------------


def test_18_a_repeated_row_leaves_the_plane():
    double = np.vstack([R, R[:1]])
    planes, sums, multipliers = [], [], []
    for solver in ("sor", *SOLVERS):
        found = solve(TWSVM, S, double, solver=solver, tol=1e-12)
        a = found.multipliers["a" if solver == "sor" else "margin"]
        planes.append(found.plane)
        sums.append(double.T @ a)
        multipliers.append(a)
        assert found.primal == pytest.approx(3 / 38, rel=1e-6)
    # TOY1's plane and R'a = S'S u = (3, 3, -3)/19 in this sign, whichever multipliers were found
    np.testing.assert_allclose(planes, [TOY1] * 6, atol=1e-5)
    np.testing.assert_allclose(sums, [np.array([3.0, 3.0, -3.0]) / 19] * 6, atol=1e-5)
    assert np.ptp(np.array(multipliers), axis=0).max() > 1e-3
    answer = verify(TWSVM, (np.vstack([A, B3, B3[:1]]), [1, 1, 1, 0, 0, 0, 0]), max_planes=None)
    assert answer.counts["fail"] == 0


@pytest.mark.parametrize("solver", SOLVERS)
def test_18_a_plane_without_a_normal_divides_by_nothing(solver):
    # rank-one data, C = 10: value 40, w = 0, b = 1, and many multipliers
    x, y = np.array([-4.0, 1, -8, 2, 0, 5, -1]), np.array([-1.0, 1, 1, 1, 1, 1, -1])
    rows = y[:, None] * ones(x)
    found = solve(load("twsvm")(C2=10.0, eps=0.0), [[1.0, 0.0]], rows, solver=solver)
    assert found.primal == pytest.approx(40, rel=1e-6)
    np.testing.assert_allclose(found.plane, [0, 1], atol=1e-6)
    plane = np.array([[0.0, 1.0]])
    with pytest.warns(ZeroNormalWarning, match="1 of 1 planes have w = 0"):
        assert np.isinf(distances(rows, plane, Rows().norms(plane))).all()


# --- 25, 26: the intercept, and what the classes are called ---------------------------------------


def test_25_invariance_holds_exactly_where_the_intercept_is_free():
    near, far = blob40()
    here, there = ((ones(near + shift), -ones(far + shift)) for shift in (0.0, 100.0))
    # shifted by 100: nothing changes without a ridge; a ridge of 1e-4 changes the optimum by 2.4 %, one of 1 by more
    values = {}
    for key, formulation in (
        ("none", TWSVM), ("small", load("twsvm")(1.0, eps=1e-4)), ("large", load("tbsvm")(C1=1.0, C2=1.0))
    ):  # fmt: skip
        first, second = (solve(formulation, *rows, tol=1e-11).primal for rows in (here, there))
        values[key] = abs(second - first) / first
    assert values["none"] < 3e-11
    assert values["small"] == pytest.approx(0.0235, abs=5e-4)
    assert values["large"] > 1.0
    p = {"C1": 1.0, "C2": 1.0}
    assert solve(load("tbsvm")(**p), *there, tol=1e-11).primal == pytest.approx(
        oracle.optimum("tbsvm", p, *there).value, rel=1e-9
    )


def test_25_a_free_intercept_far_from_the_origin():
    # x = 100 ... 103, C = 1: by symmetry about 101.5 the slacks are 1 - w/2 each, w^2/2 + 2 - w is least at w = 1
    x, y = np.array([100.0, 101, 102, 103]), np.array([-1.0, -1, 1, 1])
    found = solve(TWSVM, [[1.0, 0.0]], y[:, None] * ones(x), solver="clarabel")
    assert found.primal == pytest.approx(1.5, rel=1e-7)
    assert found.plane[0] == pytest.approx(1.0, rel=1e-6)
    assert (np.sign(ones(x) @ found.plane) == y).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_26_weights_follow_their_class(solver):
    # x = (0, 9, 8), y = (-1, -1, 1), C = 100 weighted by 1/2 on class -1: w = 1/4, a = (6.28125, 50, 56.28125),
    # exact: w = sum y a x and the intercept's equation sum y a = 0
    x, y, weight = np.array([0.0, 9, 8]), np.array([-1.0, -1, 1]), np.array([50.0, 50, 100])
    z, xi = cp.Variable(2), cp.Variable(3)
    constraints = {"margin": (y[:, None] * ones(x)) @ z + xi >= 1, "slack": xi >= 0}
    found = solve_program(Program(cp.Minimize(z[0] ** 2 / 2 + weight @ xi), constraints, plane=z), solver)
    assert found.plane[0] == pytest.approx(0.25, rel=1e-5)
    np.testing.assert_allclose(found.multipliers["margin"], [6.28125, 50, 56.28125], rtol=1e-5)


@pytest.mark.parametrize("name", oracle.NAMES)
def test_26_a_classs_plane_does_not_depend_on_its_name(name):
    # C2 weighs the slacks of the margin rows: under "nearest" those are the other classes', under "farthest" its own
    rows = ones(np.vstack([A, B3]))
    for scheme in ("nearest", "farthest"):
        one = class_matrices(rows, [1, 1, 1, 0, 0, 0], 1, scheme)
        two = class_matrices(rows, ["a", "a", "a", "b", "b", "b"], "a", scheme)
        for first, second in zip(one, two, strict=True):
            np.testing.assert_array_equal(first, second)
        assert len(one[1]) == 3
        # with S and the sign of R exchanged, the plane is the same up to its sign
        p = oracle.params(name, 0.1, 1.0)
        here, flipped = (solve(load(name)(**p), one[0], sign * one[1], tol=1e-11) for sign in (1, -1))
        assert here.primal == pytest.approx(flipped.primal, rel=1e-9)
        if name != "l1_ls_twsvm":  # whose optimal planes need not be unique
            np.testing.assert_allclose(here.plane, -flipped.plane, rtol=1e-5, atol=1e-8)


# --- 28: the prediction rule ----------------------------------------------------------------------


def test_28_raw_and_normalised_distances():
    # planes x = 0 (norm 1) and 2x - 6 = 0 (norm 2); raw: |x| against |2x - 6|, normalised: |x| against |x - 3|
    rows, planes = ones(np.array([1.5, 2.0, 1.8, 1.0])), np.array([[1.0, 0.0], [2.0, -6.0]])
    raw = distances(rows, planes)
    np.testing.assert_allclose(raw, [[1.5, 3.0], [2.0, 2.0], [1.8, 2.4], [1.0, 4.0]])
    assert decide(raw, "nearest").tolist() == [0, 0, 0, 0]  # the second is a tie, and a tie goes to the first
    euclidean = distances(rows, planes, Rows().norms(planes))
    np.testing.assert_allclose(euclidean, [[1.5, 1.5], [2.0, 1.0], [1.8, 1.2], [1.0, 2.0]])
    assert decide(euclidean, "nearest").tolist() == [0, 1, 1, 0]
    assert decide(euclidean, "farthest").tolist() == [0, 0, 0, 1]
    # distances are absolute: a plane and its negative decide alike
    np.testing.assert_array_equal(distances(rows, -planes), raw)


def test_28_the_kernel_norm_is_that_of_the_expansion():
    # w'K(C, C)w with K = exp(-gamma |x - y|^2): centres 0 and 1, gamma = ln 2, so K = [[1, 1/2], [1/2, 1]]
    rows = Rows.of("rbf", [[0.0], [1.0]], gamma=np.log(2))
    planes = np.array([[1.0, 1.0, 5.0], [1.0, -1.0, 5.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(rows.norms(planes), [np.sqrt(3), 1.0, 0.0], atol=1e-15)
    with pytest.warns(ZeroNormalWarning):
        far = distances(rows([[0.0]]), planes, rows.norms(planes))
    assert np.isinf(far[0, 2])
    # K(0, C) = (1, 1/2): |1 + 1/2 + 5| / sqrt(3) = 3.75 and |1 - 1/2 + 5| / 1 = 5.5
    np.testing.assert_allclose(far[0, :2], [6.5 / np.sqrt(3), 5.5])
    assert decide(far, "nearest")[0] == 0


# --- 32, 33: compilation and plumbing -------------------------------------------------------------


def test_32_a_path_of_solves_equals_cold_solves():
    near, margin = oracle.matrices(6, 20, 15)
    formulation = load("hnpsvm")()
    path = [solve(formulation.set_params(C2=C2), near, margin, tol=1e-11).primal for C2 in (0.1, 1.0, 10.0)]
    cold = [solve(load("hnpsvm")(C2=C2), near, margin, tol=1e-11).primal for C2 in (0.1, 1.0, 10.0)]
    assert path == cold
    assert path == sorted(path)  # the optimum grows with C2


@pytest.mark.parametrize("solver", SOLVERS)
def test_33_neutral_options_are_translated_and_unknown_ones_named(solver):
    options = options_for(solver, {"max_iter": 7, "tol": 1e-5})
    assert 7 in options.values()
    assert 1e-5 in options.values()
    with pytest.raises(NPSVMError, match=r"option='max_iters' is not known; did you mean 'max_iter'\?"):
        options_for(solver, {"max_iters": 7})


def test_33_an_unknown_solver_is_named_with_its_neighbour():
    near, margin = oracle.matrices()
    with pytest.raises(NPSVMError, match=r"solver='clarable' is not known; did you mean 'clarabel'\?") as caught:
        solve("hnpsvm", near, margin, solver="clarable")
    assert "sor" in str(caught.value)


@pytest.mark.parametrize("solver", SOLVERS)
def test_33_standard_output_stays_clean(solver, capfd):
    near, margin = oracle.matrices()
    for name in ("hnpsvm", "l1_ls_twsvm"):
        solve_program(load(name)().program("primal", near, margin), solver)
    captured = capfd.readouterr()
    assert captured.out == ""


class NoRows(Formulation):
    """An unconstrained primal: its standard form may have no rows, which one solver refuses."""

    def primal(self, S, R):
        z = plane_variable(S)
        return Program(cp.Minimize(cp.sum_squares(S @ z) + cp.sum_squares(z) + cp.sum(R @ z)), {}, plane=z)

    def dual(self, S, R):
        F, a = whiten(S, R, 1.0), multiplier_variable(R)
        return Program(cp.Maximize(-cp.sum_squares(F.T @ a)), {"one": a == 1}, plane=plane_from_dual(S, R, 1.0, a) / -2)


@pytest.mark.parametrize("solver", SOLVERS)
def test_33_a_program_without_constraints_is_solved_or_reported(solver):
    near, margin = oracle.matrices()
    exact = np.linalg.solve(near.T @ near + np.eye(4), -margin.sum(axis=0) / 2)  # normal equations
    found = solve_program(NoRows().program("primal", near, margin), solver)
    if found.plane is None:
        assert found.status == "failed"
        assert found.detail
    else:
        np.testing.assert_allclose(found.plane, exact, atol=1e-5)


def test_33_an_exact_maximum_by_every_solver():
    # max x - x^2 / 5000: 1250 at x = 2500
    x = cp.Variable(1)
    for solver in SOLVERS:
        found = solve_program(Program(cp.Maximize(cp.sum(x) - cp.sum_squares(x) / 5000), {}, plane=x), solver)
        if found.error <= ACCURATE:
            assert found.value == pytest.approx(1250, rel=1e-6), solver
        else:
            assert found.status in ("failed", "stopped early", "solved"), solver


def test_11_the_proximal_loop_on_a_linear_programme_with_boxes_around_zero():
    # the same data with the absolute loss instead of the hinge: every box then holds zero inside; HiGHS through SciPy
    near, far = lp30()
    p = {"C1": 0.1, "C2": 1.0}
    best = oracle.optimum("l1_ls_twsvm", p, ones(near), -ones(far))
    rows = np.vstack([-ones(far), -ones(near), -np.eye(6)])
    terms = Terms.of(
        66,
        np.r_[-np.ones(30), np.zeros(36)],
        0.0,
        -np.r_[np.ones(60), np.full(6, 0.1)],
        np.r_[np.ones(60), np.full(6, 0.1)],
    )
    result = proximal_point(rows, terms, tol=1e-10)
    assert result.converged
    assert result.primal == pytest.approx(best.value, rel=1e-9)
