"""What a verification is made of: rows, statuses, the verdict, the diagnosis, and errors that name the argument."""

import json
from dataclasses import replace

import cvxpy as cp
import numpy as np
import oracle
import pandas as pd
import pytest

from npsvm_cvx import Formulation, Framework, Loss, Program, Reduction, load
from npsvm_cvx import checks as module
from npsvm_cvx.checks import CHECKS
from npsvm_cvx.errors import NPSVMError
from npsvm_cvx.evidence import Row
from npsvm_cvx.instance import ACCURATE, Instance
from npsvm_cvx.modeling import multiplier_variable, plane_from_dual, plane_variable, slack_variable, whiten
from npsvm_cvx.verification import Verification, VerificationError, diagnose, seeded_instance, verify

COLUMNS = ["check", "value", "tolerance", "status", "meaning"]


@pytest.fixture(scope="module")
def answer():
    return verify("hnpsvm", solvers=["clarabel", "osqp"])


def instance(formulation="hnpsvm", solvers=("clarabel",), seed=0, **options):
    S, R = oracle.matrices(1, 12, 9)
    made = load(formulation)() if isinstance(formulation, str) else formulation
    return Instance(made, S, R, "1", solvers, seed=seed, **options)


def rows_of(found, check):
    return [row for row in found if row.check == check]


# --- the answer -----------------------------------------------------------------------------------


def test_the_frame_has_exactly_these_columns(answer):
    frame = answer.to_frame()
    assert list(frame.columns) == COLUMNS
    assert list(frame.index.names) == ["plane", "solver"]
    assert len(frame) == len(answer.rows)
    assert set(frame.status) <= {"pass", "fail", "solver", "skip"}
    assert frame.meaning.map(lambda text: isinstance(text, str) and len(text) > 3 and "\n" not in text).all()
    assert pd.api.types.is_float_dtype(frame.value)


def test_json_is_valid_and_says_the_same(answer):
    read = json.loads(answer.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert read["passed"] is True
    assert read["counts"] == answer.counts
    assert len(read["rows"]) == len(answer.rows)
    assert set(COLUMNS) <= set(read["rows"][0])
    skipped = [row for row in read["rows"] if row["status"] == "skip"]
    assert skipped
    assert all(row["value"] is None for row in skipped)  # not a number, so null


def test_every_check_ran_on_every_plane(answer):
    for plane in "abc":
        ran = {row.check for row in answer.rows if row.plane == plane}
        assert {"curvature", "dual function", "dual domain", "weak duality", "strong duality", "conic dual", "KKT",
                "plane from dual", "SOR agreement", "certified gap", "reductions", "invariances"} <= ran  # fmt: skip
    assert any(row.check == "predictions" and row.status == "pass" for row in answer.rows)
    assert answer.counts["fail"] == answer.counts["solver"] == 0
    assert len(CHECKS) == 12


def test_passing_rows_keep_their_tolerances(answer):
    for row in answer.rows:
        if row.status == "pass":
            assert row.value <= row.tolerance or "as good as" in row.meaning or "not the only" in row.meaning


def test_the_summary_counts_what_ran(answer):
    n = answer.counts
    assert answer.summary.startswith(f"{n['pass']} of {n['pass'] + n['fail']} checks that ran passed")
    assert f"{n['skip']} do not apply" in answer.summary
    assert answer.diagnosis == answer.summary
    assert str(answer).startswith("HNPSVM() on a seeded instance")
    assert "passed" in str(answer)
    answer.raise_for_failures()


def test_html_is_escaped(answer):
    html = replace(answer, formulation="<b>&")._repr_html_()
    assert "&lt;b&gt;&amp;" in html
    assert html.count("<table") == 1


def test_the_same_question_has_the_same_answer():
    one, two = (verify("pinball", solvers=["clarabel"], max_planes=1).to_frame() for _ in range(2))
    pd.testing.assert_frame_equal(one, two)


# --- the verdict ----------------------------------------------------------------------------------


def row(check="strong duality", status="pass", plane="1", meaning="a sentence"):
    return Row(check, 0.0, 1.0, status, meaning, plane=plane)


def test_nothing_decisive_is_no_pass():
    for rows in (
        [],
        [row(status="skip")],
        [row(status="solver")],
        [row("curvature"), row("KKT"), row("certified gap")],
        [row(plane="1"), row("KKT", plane="2")],  # the second plane was not decided
        [row(), row("KKT", "fail")],
    ):
        answer = Verification("F()", "data", rows)
        assert not answer.passed
        with pytest.raises(VerificationError, match=r"F\(\) on data: "):
            answer.raise_for_failures()
    assert "no solver was accurate enough" in Verification("F()", "data", [row(status="solver")]).diagnosis


def test_one_decisive_row_a_plane_is_enough():
    for check in ("strong duality", "conic dual"):
        assert Verification("F()", "data", [row(check), row("KKT", "solver"), row("reductions", "skip")]).passed


def test_the_dual_function_alone_does_not_decide():
    # it says nothing of the primal's optimum, which no solver may have found
    assert not Verification("F()", "data", [row("dual function"), row("KKT", "solver")]).passed


def test_the_diagnosis_prefers_what_names_a_place():
    rows = [
        row("strong duality", "fail", meaning="values differ"),
        row("dual domain", "fail", meaning="dual domain: too narrow"),
        row("plane from dual", "fail", meaning="recovery: wrong"),
    ]
    assert diagnose(rows).startswith("dual domain: too narrow (and so plane from dual, strong duality disagree)")
    assert diagnose(rows[:1]) == "values differ"
    assert diagnose([row("declaration", "fail", meaning="declared"), *rows]).startswith("declared")
    assert diagnose([row("curvature", "fail", meaning="curved"), *rows]).startswith("curved")
    assert diagnose([row("conjugate", "fail", meaning="conjugate value: no"), *rows]).startswith("conjugate value: no")


# --- solvers that fall short ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hnpsvm", "ls_twsvm", "pinball", "nppc"])
@pytest.mark.parametrize("solver", ["clarabel", "osqp", "ecos", "scs"])
def test_a_solver_that_stops_early_is_neither_pass_nor_fail(name, solver):
    found = instance(name, (solver,), options={"max_iter": 1})
    solution = found.primal_solutions[solver]
    rows = [row for check in CHECKS for row in check(found)]
    assert [row for row in rows if row.status == "fail"] == []
    if solution.error > ACCURATE:  # an equality-constrained quadratic may be solved in one step
        mine = [row for row in rows if row.solver == solver and row.check != "plane from dual"]
        assert mine
        assert all(row.status == "solver" for row in mine)
        assert any("stopped early" in row.meaning or "failed" in row.meaning for row in mine)
        assert rows_of(rows, "strong duality")[0].status != "pass"


def test_one_bad_solver_beside_a_good_one_is_told_apart(monkeypatch):
    import npsvm_cvx.instance as where

    real = where.solve_program

    def lame(program, solver, options=None, **rest):
        return real(program, solver, {"max_iter": 1} if solver == "osqp" else options, **rest)

    monkeypatch.setattr(where, "solve_program", lame)
    answer = verify("hnpsvm", solvers=["clarabel", "osqp", "ecos"], max_planes=1)
    assert answer.passed
    assert answer.counts["fail"] == 0
    assert answer.counts["solver"] >= 3
    assert {row.solver for row in answer.rows if row.status == "solver"} == {"osqp"}
    assert "a solver, not the formulation, fell short" in answer.summary


def test_without_any_accurate_solver_nothing_is_shown(monkeypatch):
    import npsvm_cvx.instance as where

    real = where.solve_program
    monkeypatch.setattr(where, "solve_program", lambda p, s, o=None, **r: real(p, s, {"max_iter": 1}, **r))
    answer = verify("l1_ls_twsvm", solvers=["osqp"], max_planes=1)
    assert [row for row in answer.rows if row.status == "fail"] == []
    assert not [row for row in answer.rows if row.check == "strong duality" and row.status == "pass"]


# --- single checks --------------------------------------------------------------------------------


def test_curvature_looks_at_other_settings():
    (row,) = module.curvature(instance("nppc"))
    assert row.status == "pass"
    assert "settings" in row.meaning


def test_checks_that_do_not_apply_say_why():
    bare = instance(Framework(WithoutConjugate()))
    assert [r.status for r in module.dual_function(bare)] == ["skip"]
    assert [r.status for r in module.conjugate(bare)] == ["skip"]
    assert [r.status for r in module.weak_duality(bare)] == ["skip"]
    assert [r.status for r in module.strong_duality(bare)] == ["skip"]
    assert [r.status for r in module.plane_from_dual(bare)] == ["skip"]
    assert [r.status for r in module.sor_agreement(bare)] == ["skip"]
    assert [r.status for r in module.certified_gap(bare)] == ["skip"]
    assert [r.status for r in module.reductions(bare)] == ["skip"]
    assert [r.status for r in module.conic_dual(bare)] == ["pass"]  # which then stands in
    assert [r.status for r in module.conjugate(instance("hnpsvm"))] == ["skip"]


class WithoutConjugate(Loss):
    """A logistic loss: its conjugate is no quadratic, and nobody has written it down."""

    def value(self, t):
        return cp.logistic(-t)


def test_a_formulation_without_a_dual_can_pass():
    answer = verify(WithoutConjugate, solvers=["clarabel", "ecos"])
    assert answer.passed, answer.diagnosis
    assert answer.counts["fail"] == 0


def test_conjugate_probes_inside_outside_and_on_the_edge():
    # the squared hinge: slopes from minus infinity to 0
    class Square(Loss):
        def value(self, t):
            return cp.square(cp.pos(1 - t))

        def conjugate(self, v):
            return v + cp.square(v) / 4, [v <= 0]

    (row,) = module.conjugate(instance(Framework(Square())))
    assert row.status == "pass"
    assert "inf" in row.meaning

    class Off(Square):  # right but at the edge, where it is one too high
        def conjugate(self, v):
            return v + cp.square(v) / 4, [v <= -1e-6]

    (row,) = module.conjugate(instance(Framework(Off())))
    assert row.status == "fail"
    assert "conjugate domain" in row.meaning


def test_reductions_by_formulation_closed_form_and_limit():
    assert [r.status for r in module.reductions(instance("ls_twsvm"))] == ["pass"]
    assert [r.status for r in module.reductions(instance("nppc"))] == ["pass"]

    class Claims(load("ls_twsvm")):
        def reductions(self):
            return [
                Reduction("half its closed form", lambda S, R: np.ones(S.shape[1])),
                Reduction("the hinge", load("hnpsvm")(self.C1, self.C2)),
            ]

    found = list(module.reductions(instance(Claims())))
    assert [r.status for r in found] == ["fail", "fail"]
    assert found[0].meaning.startswith("not half its closed form")
    assert "optimum" in found[1].meaning


def test_invariances_hold_where_declared_and_fail_where_they_do_not():
    assert {r.status for r in module.invariances(instance("hnpsvm"))} == {"pass"}

    class Wrong(load("l1_ls_twsvm")):
        invariances = ("rotation",)  # the 1-norm of a plane is not invariant

    (row,) = module.invariances(instance(Wrong(C1=0.1, C2=1.0)))
    assert row.status == "fail"
    assert row.meaning.startswith("rotation")

    class Unknown(load("hnpsvm")):
        invariances = ("weather",)

    (row,) = module.invariances(instance(Unknown()))
    assert row.status == "fail"
    assert "'weather' is not known" in row.meaning


def test_an_empty_domain_is_a_row_not_a_crash():
    class Empty(load("hnpsvm")):
        def dual(self, S, R):
            F, a = whiten(S, R, self.C1), multiplier_variable(R)
            objective = cp.Maximize(cp.sum(a) - cp.sum_squares(F.T @ a) / 2)
            multipliers = {"margin": a, "slack": self.C2 - a}
            domain = {"low": a >= 2 * self.C2, "high": a <= self.C2}
            return Program(objective, domain, plane_from_dual(S, R, self.C1, a), multipliers)

    answer = verify(Empty(), solvers=["clarabel"], max_planes=1)
    assert not answer.passed
    assert "no multipliers satisfy the declared constraints" in answer.diagnosis


def test_a_formulation_that_breaks_is_a_declaration_row():
    class Broken(load("hnpsvm")):
        def dual(self, S, R):
            raise RuntimeError("the author was called away")

    answer = verify(Broken(), solvers=["clarabel"])
    assert not answer.passed
    assert [r.check for r in answer.rows] == ["declaration"]
    assert "Broken.dual raised RuntimeError: the author was called away" in answer.diagnosis


def test_a_primal_that_is_not_convex_is_a_curvature_row():
    class Concave(load("hnpsvm")):
        def primal(self, S, R):
            z = plane_variable(S)
            return Program(cp.Minimize(-cp.sum_squares(z)), {"margin": R @ z >= 1}, plane=z)

    answer = verify(Concave(), solvers=["clarabel"])
    assert [(r.check, r.status) for r in answer.rows] == [("curvature", "fail")]
    assert "Concave.primal is not convex" in answer.diagnosis


# --- the question ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"formulation": "hnpsv"}, r"formulation='hnpsv' is not known; did you mean 'hnpsvm'"),
        ({"solvers": ["clarable"]}, r"solver='clarable' is not known; did you mean 'clarabel'"),
        ({"solvers": []}, "solvers="),
        ({"kernel": "rbff"}, r"kernel='rbff' is not known; did you mean 'rbf'"),
        ({"kernel": "rbf", "gamma": -1.0}, "gamma="),
        ({"kernel": "rbf", "gamma": "wide"}, "gamma='wide' must be"),
        ({"scheme": "near"}, "scheme='near' is not known"),
        ({"max_rows": 1}, "max_rows=1 must be"),
        ({"data": "iriss"}, "iris"),
        ({"data": 7}, "data must be"),
        ({"data": ([[1.0], [np.nan]], [0, 1])}, "data: X holds NaN or infinity"),
        ({"data": ([[1.0], [2.0]], [0.0, np.nan])}, "data: y holds NaN"),
        ({"data": ([["a"], ["b"]], [0, 1])}, "data: X must be numeric"),
        ({"data": ([1.0, 2.0], [0, 1])}, "data: X must be a matrix"),
        ({"data": ([[1.0], [2.0]], [0, 1, 1])}, "data: y must hold one label a row"),
        ({"data": ([[1.0], [2.0]], [3, 3])}, "data: y holds one class"),
        ({"data": (np.zeros((0, 2)), [])}, "data: X must be a matrix"),
    ],
)
def test_a_bad_question_is_one_line(given, message):
    options = {"formulation": "hnpsvm", "solvers": ["clarabel"], **given}
    formulation = options.pop("formulation")
    with pytest.raises(ValueError, match=message) as caught:
        verify(formulation, options.pop("data", None), **options)
    assert "\n" not in str(caught.value)


def test_a_hyperparameter_outside_its_interval_is_an_error_before_any_solve():
    with pytest.raises(NPSVMError, match=r"d=1\.5 must lie in \(0, 1\)"):
        verify(load("nppc")(d=1.5))


def test_labels_of_every_type(recwarn):
    X, y = seeded_instance(1)
    frames = [
        verify("hnpsvm", (X, labels), solvers=["clarabel"], max_planes=1).to_frame().reset_index(drop=True)
        for labels in (y, np.searchsorted(["a", "b", "c"], y), [str(v) for v in y], y.astype(object))
    ]
    for frame in frames[1:]:
        pd.testing.assert_frame_equal(frame, frames[0])
    assert not recwarn.list


def test_subsamples_and_planes_are_stated():
    answer = verify("hnpsvm", "wine", solvers=["clarabel"], max_rows=45, max_planes=2)
    assert answer.data == "wine (178 x 13, 45 rows of it)"
    assert {row.plane for row in answer.rows if row.plane} == {"1", "2"}
    (row,) = [r for r in answer.rows if r.check == "predictions"]
    assert row.status == "skip"
    assert "2 of 3 planes" in row.meaning


@pytest.mark.parametrize("kernel", ["linear", "rbf", "polynomial"])
@pytest.mark.parametrize("scheme", ["farthest", "nearest"])
def test_kernels_and_schemes(kernel, scheme):
    answer = verify("hnpsvm", solvers=["clarabel"], kernel=kernel, scheme=scheme, max_planes=1)
    assert answer.passed, answer.diagnosis
    assert ("kernel" in answer.data) == (kernel != "linear")


class Fixed(Formulation):
    """A ridge of one, written into the file: there is no hyperparameter C1 for the check of repetition to double."""

    def primal(self, S, R):
        z, xi = plane_variable(S), slack_variable(R)
        objective = cp.sum_squares(S @ z) / 2 + cp.sum_squares(z) / 2 + cp.sum(xi)
        return Program(cp.Minimize(objective), {"margin": R @ z + xi >= 1, "slack": xi >= 0}, plane=z)

    def dual(self, S, R):
        F, a = whiten(S, R, 1.0), multiplier_variable(R)
        objective = cp.Maximize(cp.sum(a) - cp.sum_squares(F.T @ a) / 2)
        multipliers = {"margin": a, "slack": 1 - a}
        return Program(objective, self.box(a), plane_from_dual(S, R, 1.0, a), multipliers)

    def box(self, a):
        return {"low": a >= 0, "high": a <= 1}


def test_a_formulation_without_hyperparameters():
    answer = verify(Fixed(), solvers=["clarabel"], max_planes=1)
    assert answer.passed, answer.diagnosis


@pytest.mark.parametrize("ridge", ["C9", "lam"])
def test_a_ridge_that_names_no_hyperparameter_is_said(ridge):
    class Misnamed(Fixed):
        pass

    Misnamed.ridge = ridge
    answer = verify(Misnamed(), solvers=["clarabel"], max_planes=1)
    assert answer.counts["fail"] == 0 or ridge in answer.diagnosis
