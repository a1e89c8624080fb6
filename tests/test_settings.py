"""Many settings of a primal: the answers of one compilation are those of a fresh one each."""

import numpy as np
import oracle
import pytest

from npsvm_cvx import load
from npsvm_cvx.errors import NPSVMError
from npsvm_cvx.settings import parametric, solve_settings
from npsvm_cvx.solvers import solve_program

GRID = [{"C1": c1, "C2": c2} for c1 in (0.25, 1.0) for c2 in (0.5, 1.0, 8.0)]


@pytest.mark.parametrize("name", [n for n in oracle.NAMES if n not in ("twsvm", "mbsvm")])
def test_each_answer_is_that_of_a_fresh_problem(name):
    S, R = oracle.matrices()
    for setting, found in zip(GRID, solve_settings(load(name)(), S, R, GRID), strict=True):
        fresh = solve_program(load(name)(**setting).program("primal", S, R), "clarabel")
        assert found.value == pytest.approx(fresh.value, rel=1e-7)
        assert found.error <= 1e-6


@pytest.mark.parametrize("name", ["hnpsvm", "tbsvm", "ls_twsvm", "smooth_twsvm", "nppc", "l1_ls_twsvm", "pinball"])
def test_a_grid_compiles_once(name, monkeypatch):
    cls, built = load(name), []
    primal = cls.primal
    monkeypatch.setattr(cls, "primal", lambda self, S, R: built.append(1) or primal(self, S, R))
    S, R = oracle.matrices()
    assert len(list(solve_settings(cls(), S, R, GRID))) == 6
    assert len(built) == 1


def test_what_is_not_affine_in_its_hyperparameters_is_built_anew():
    # the Huberised hinge divides by delta, which is no affine function of it
    rows = np.ones((2, 2))
    assert parametric(load("huber_hinge")(), rows, rows, [{"delta": 0.5}]) is None
    S, R = oracle.matrices()
    one, two = solve_settings(load("huber_hinge")(), S, R, [{"delta": 0.5}, {"delta": 2.0}])
    assert one.value > two.value  # the loss falls as delta grows


def test_a_value_outside_its_domain_is_named():
    with pytest.raises(NPSVMError, match="C2=-1"):
        list(solve_settings(load("hnpsvm")(), np.ones((2, 2)), np.ones((2, 2)), [{"C2": 1.0}, {"C2": -1.0}]))
