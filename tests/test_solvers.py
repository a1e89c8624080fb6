"""Calling the general solvers: statuses, options, silence, and errors that name what is wrong."""

import os
import sys

import cvxpy as cp
import numpy as np
import oracle
import pytest

from npsvm_cvx import Program, load, solve
from npsvm_cvx.errors import NPSVMError, SolverError
from npsvm_cvx.solvers import (
    SOLVERS,
    ProgramSolution,
    check_solvers,
    installed,
    options_for,
    quiet,
    require,
    solution_or_raise,
    solve_program,
    value_with_plane_fixed,
)


def toy(constraints, objective=None):
    x = cp.Variable(2)
    return Program(cp.Minimize(objective(x) if objective else cp.sum_squares(x)), constraints(x), plane=x)


@pytest.mark.parametrize("solver", SOLVERS)
def test_statuses(solver):
    solved = solve_program(toy(lambda x: {"one": x >= 1}), solver)
    assert solved.status == "solved"
    assert solved.value == pytest.approx(2.0, rel=1e-5)
    assert solved.error <= 1e-5
    assert solved.seconds >= 0
    assert list(solved.sides) == ["one"]
    np.testing.assert_allclose(solved.sides["one"], 0, atol=1e-5)  # lhs - rhs: 1 - x

    infeasible = solve_program(toy(lambda x: {"low": x >= 1, "high": x <= 0}), solver)
    assert infeasible.status == "infeasible"
    assert infeasible.plane is None
    assert infeasible.error == np.inf
    assert np.isnan(infeasible.value)

    unbounded = solve_program(toy(lambda x: {"high": x <= 1}, cp.sum), solver)
    assert unbounded.status in ("unbounded", "failed")
    assert unbounded.plane is None


def test_upper_case_names_are_the_same_solver():
    assert solve_program(toy(lambda x: {"one": x >= 1}), "CLARABEL").solver == "clarabel"
    assert require("Osqp") == "osqp"


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_is_installed_here(solver):
    assert installed(solver)


def test_a_missing_solver_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(NPSVMError, match=r"solver='highs' is not installed: pip install highspy"):
        require("highs")


@pytest.mark.parametrize("call", [installed, require, lambda s: check_solvers([s]), lambda s: check_solvers(s)])
def test_an_unknown_solver_is_named_with_its_neighbour(call):
    with pytest.raises(NPSVMError, match=r"solver='ecoss' is not known; did you mean 'ecos'\?") as caught:
        call("ecoss")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bad", [[], (), None, 3, {"clarabel"}])
def test_solvers_must_be_names(bad):
    with pytest.raises(NPSVMError, match="solvers="):
        check_solvers(bad)


def test_solvers_are_listed_once():
    assert check_solvers(["clarabel", "CLARABEL", "osqp"]) == ("clarabel", "osqp")
    assert check_solvers("ecos") == ("ecos",)


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_options_are_complete_on_every_call(solver):
    # a full set is sent each time, so that nothing of an earlier solve can stay behind
    assert set(options_for(solver)) == set(options_for(solver, {"tol": 1e-3, "max_iter": 5}))
    assert options_for(solver, {"tol": None}) == options_for(solver)
    with pytest.raises(NPSVMError, match="option='verbose'"):
        options_for(solver, {"verbose": True})


def test_translations():
    assert options_for("clarabel", {"tol": 1e-5})["tol_feas"] == 1e-5
    assert options_for("osqp", {"time_limit": 2.0})["time_limit"] == 2.0
    assert options_for("scs", {"time_limit": 2.0})["time_limit_secs"] == 2.0
    assert options_for("ecos", {"time_limit": 2.0}) == options_for("ecos")  # it has none
    assert options_for("highs", {"tol": 1e-14})["primal_feasibility_tolerance"] == 1e-10  # the least it takes


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_tighter_tolerance_is_not_worse(solver):
    S, R = oracle.matrices(1, 30, 20)
    best = oracle.optimum("hnpsvm", {"C1": 1.0, "C2": 1.0}, S, R).value
    errors = []
    for tol in (1e-2, None):
        found = solve_program(load("hnpsvm")().program("primal", S, R), solver, {"tol": tol})
        errors.append(abs(found.value - best) / best)
    assert errors[1] <= max(errors[0], 1e-6)
    assert errors[1] <= 1e-6


# --- silence --------------------------------------------------------------------------------------


def test_quiet_swallows_what_c_code_prints(capfd):
    os.write(1, b"before ")
    with quiet():
        os.write(1, b"swallowed")
    os.write(1, b"after")
    assert capfd.readouterr().out == "before after"


def test_quiet_restores_standard_output_after_an_error(capfd):
    with pytest.raises(RuntimeError, match="inside"), quiet():
        raise RuntimeError("inside")
    os.write(1, b"still here")
    assert capfd.readouterr().out == "still here"


def test_quiet_can_be_asked_to_let_through(capfd):
    with quiet(False):
        os.write(1, b"heard")
    assert capfd.readouterr().out == "heard"


@pytest.mark.parametrize("solver", SOLVERS)
def test_no_solver_prints_unless_asked(solver, capfd):
    solve_program(toy(lambda x: {"low": x >= 1, "high": x <= 0}), solver)
    solve_program(load("ls_twsvm")().program("primal", *oracle.matrices()), solver)
    assert capfd.readouterr() == ("", "")


def test_verbose_prints(capfd):
    solve_program(toy(lambda x: {"one": x >= 1}), "clarabel", verbose=True)
    assert "Clarabel" in capfd.readouterr().out


# --- failure --------------------------------------------------------------------------------------


def test_a_solver_that_raises_is_a_failed_solution():
    # a mixed-integer program is beyond every solver here but one: no exception leaves the call
    x = cp.Variable(2, integer=True)
    found = solve_program(Program(cp.Minimize(cp.sum_squares(x - 0.5)), {"low": x >= -3}, plane=x), "clarabel")
    assert found.status == "failed"
    assert found.detail
    assert "\n" not in found.detail
    assert found.error == np.inf


def test_solution_or_raise_names_what_solver_and_status():
    with pytest.raises(SolverError, match=r"osqp returned no point for HNPSVM: it fell over"):
        solution_or_raise(ProgramSolution("osqp", "failed", "it fell over"), "HNPSVM")


def test_an_infeasible_primal_is_a_solver_error_by_solve(monkeypatch):
    class Contradiction(load("hnpsvm")):
        def primal(self, S, R):
            program = super().primal(S, R)
            return Program(program.objective, {**program.constraints, "never": program.plane >= 1,
                                               "either": program.plane <= 0}, program.plane)  # fmt: skip

    with pytest.raises(SolverError, match="clarabel returned no point for Contradiction"):
        solve(Contradiction(), *oracle.matrices(), solver="clarabel")


def test_a_plane_can_be_held():
    S, R = oracle.matrices()
    z = np.array([0.3, -0.1, 0.2, 0.5])
    for name in ("hnpsvm", "pinball", "l1_ls_twsvm"):
        p = oracle.params(name, 0.5, 2.0)
        value = value_with_plane_fixed(load(name)(**p).program("primal", S, R), z)
        assert value == pytest.approx(oracle.primal_value(name, p, S, R, z), rel=1e-6)
    hard = Program(cp.Minimize(cp.sum_squares(x := cp.Variable(1))), {"margin": x >= 1}, plane=x)
    assert value_with_plane_fixed(hard, np.zeros(1)) == np.inf
    with pytest.raises(NPSVMError, match="is a multiplier and cannot be held"):
        value_with_plane_fixed(load("l1_ls_twsvm")().program("dual", S, R), z)


# --- solve ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tol": -1}, "tol=-1 must be a nonnegative number"),
        ({"tol": "1e-8"}, "tol='1e-8' must be"),
        ({"tol": None}, "tol=None must be"),
        ({"max_iter": 0}, "max_iter=0 must be a positive whole number"),
        ({"max_iter": 1.5}, "max_iter=1.5 must be"),
        ({"time_limit": 0}, "time_limit=0 must be"),
        ({"relaxation": 2}, r"relaxation=2 must be a number in \(0, 2\)"),
        ({"solver": "so"}, "solver='so' is not known; did you mean"),
        ({"formulation": "hnpsv"}, "formulation='hnpsv' is not known; did you mean 'hnpsvm'"),
        ({"formulation": 7}, "formulation must be a name, a path"),
        ({"S": [[1.0, 2.0, 1.0]]}, "S and R must be matrices with as many columns"),
        ({"S": [1.0, 2.0, 1.0, 1.0]}, r"S must be a matrix with a row .* found shape \(4,\)"),
        ({"S": np.zeros((0, 4))}, r"S must be a matrix with a row .* found shape \(0, 4\)"),
        ({"R": np.full((2, 4), np.nan)}, "R must be finite"),
        ({"S": np.ones((2, 4)) * 1j}, "S must be a matrix of numbers"),
        ({"max_iter": np.inf}, "max_iter=inf must be a positive whole number"),
        ({"max_iter": True}, "max_iter=True must be"),
        ({"random_state": -1}, "random_state=-1 must be"),
        ({"solver": None}, "solver"),
    ],
)
@pytest.mark.parametrize("solver", ["sor", "clarabel"])
def test_bad_arguments_are_named_in_one_line(change, message, solver):
    S, R = oracle.matrices()
    given = {"formulation": "hnpsvm", "S": S, "R": R, "solver": solver, **change}
    formulation, S, R = (given.pop(key) for key in ("formulation", "S", "R"))
    with pytest.raises(NPSVMError, match=message) as caught:
        solve(formulation, S, R, **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", oracle.NAMES)
def test_all_ways_to_say_a_formulation(name):
    S, R = oracle.matrices()
    cls = load(name)
    path = sys.modules[cls.__module__].__file__
    values = [solve(f, S, R).primal for f in (name, cls, cls(), path)]
    assert max(values) - min(values) <= 1e-12 * abs(values[0])


def test_a_solution_says_who_found_it_and_how():
    S, R = oracle.matrices()
    fast, slow = solve("hnpsvm", S, R), solve("hnpsvm", S, R, solver="Clarabel")
    assert (fast.solver, fast.status, fast.converged) == ("sor", "converged", True)
    assert (slow.solver, slow.status, slow.converged) == ("clarabel", "solved", True)
    assert fast.iterations >= 1
    assert set(fast.multipliers) == {"a"}
    assert set(slow.multipliers) == {"margin", "slack"}
    assert fast.gap == pytest.approx(fast.primal - fast.dual, abs=1e-12)
    few = solve(load("hnpsvm")(2**-8, 2**8), S, R, max_iter=1, relaxation=0.1)
    assert few.iterations == 1
    assert few.status in ("iteration limit", "converged")
