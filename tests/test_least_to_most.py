"""From least to most written: a file with a loss alone, with its conjugate, with a primal alone, with all of it.

Each is written to disk, verified by the command, and trained as a classifier by its path, as a user would do it.
"""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from npsvm_cvx import NPSVMClassifier, load
from npsvm_cvx.cli import app

VALUE = """import cvxpy as cp

from npsvm_cvx import Loss


class Mine(Loss):
    domain = {"s": "(0, inf)"}

    def __init__(self, s=2.0):
        self.s = s

    def value(self, t):
        return self.s * cp.square(cp.pos(1 - t)) / 2
"""
CONJUGATE = """
    def conjugate(self, v):
        return v + cp.square(v) / (2 * self.s), [v <= 0]
"""
LOGISTIC = """import cvxpy as cp

from npsvm_cvx import Loss


class Mine(Loss):
    def value(self, t):
        return cp.logistic(-t)
"""
STEP = """
    def prox(self, t, s):
        low, high = t, t + s  # the slope of the loss lies between -1 and 0
        for _ in range(60):
            x = (low + high) / 2
            above = x - t > s / (1 + np.exp(np.clip(x, -700, 700)))
            low, high = np.where(above, low, x), np.where(above, x, high)
        return (low + high) / 2
"""
EXPONENTIAL = LOGISTIC.replace("cp.logistic(-t)", "cp.exp(-t)")
LINEX = LOGISTIC.replace("cp.logistic(-t)", "cp.exp(1 - t) - (1 - t) - 1")
TUBE = LOGISTIC.replace("cp.logistic(-t)", "cp.pos(cp.abs(1 - t) - 0.25)")
PRIMAL = """import cvxpy as cp

from npsvm_cvx import Formulation, Program
from npsvm_cvx.modeling import multiplier_variable, plane_from_dual, plane_variable, slack_variable, whiten


class Mine(Formulation):
    def __init__(self, C1=1.0, C2=1.0):
        self.C1 = C1
        self.C2 = C2

    def primal(self, S, R):
        z, xi = plane_variable(S), slack_variable(R)
        objective = cp.sum_squares(S @ z) / 2 + self.C1 * cp.sum_squares(z) / 2 + self.C2 * cp.sum_squares(xi)
        return Program(cp.Minimize(objective), {"margin": R @ z + xi >= 1, "slack": xi >= 0}, plane=z)
"""
DUAL = """
    def dual(self, S, R):
        a = multiplier_variable(R)
        F = whiten(S, R, self.C1)
        return Program(
            cp.Maximize(cp.sum(a) - cp.sum_squares(F.T @ a) / 2 - cp.sum_squares(a) / (4 * self.C2)),
            {"lower": a >= 0},
            multipliers={"margin": a},
            plane=plane_from_dual(S, R, self.C1, a),
        )
"""
# (what, the file, whether SOR runs and proves its gap, words of the verification)
FILES = [
    ("loss, derived", VALUE, "proved", "derived: L*(v) = v + v^2/(2 s) on v <= 0"),
    ("loss and conjugate", VALUE + CONJUGATE, "proved", "L* is the supremum on [-inf, 0]"),
    ("primal", PRIMAL, "no", "declares no dual"),
    ("primal and dual", PRIMAL + DUAL, "proved", "declared objective = infimum of the Lagrangian"),
    ("logistic", LOGISTIC, "no", "curved otherwise"),
    ("logistic, with its step", LOGISTIC.replace("as cp\n", "as cp\nimport numpy as np\n") + STEP, "computed",
     "the proximal map minimises"),
    ("exponential", EXPONENTIAL, "no", "it is no finite number"),
    ("LINEX", LINEX, "no", "it is no finite number"),
    ("tube", TUBE, "no", "has 2 pieces, where SOR takes one"),
]  # fmt: skip


@pytest.fixture(params=FILES, ids=[what.replace(" ", "_") for what, *_ in FILES])
def written(request, tmp_path):
    _, text, fast, words = request.param
    path = tmp_path / "mine.py"
    path.write_text(text, encoding="utf-8")
    return path, fast, words


def test_the_command_verifies_the_file(written):
    path, fast, words = written
    result = CliRunner().invoke(app, ["verify", str(path), "--solver", "clarabel", "--json"])
    assert result.exit_code == 0, result.output
    (answer,) = json.loads(result.stdout)
    assert answer["passed"]
    assert any(words in row["meaning"] for row in answer["rows"])
    agreement = {row["status"] for row in answer["rows"] if row["check"] == "SOR agreement"}
    assert agreement == ({"skip"} if fast == "no" else {"pass"})


@pytest.mark.filterwarnings("ignore:SOR does not solve|ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_classifier_takes_the_path(written):
    path, fast, _ = written
    X, y = clusters()
    model = NPSVMClassifier(formulation=str(path)).fit(X, y)
    assert model.score(X, y) > 0.8  # three clusters four standard deviations apart
    gaps = [plane["relative_gap"] for plane in model.certificate_]
    assert len(gaps) == 3
    assert [plane["rigorous"] for plane in model.certificate_] == [fast == "proved"] * 3
    assert [plane["solver"] for plane in model.certificate_] == ["clarabel" if fast == "no" else "sor"] * 3
    assert max(gaps) <= (1e-6 if fast == "no" else 1e-8)
    again = NPSVMClassifier(formulation=load(path)()).fit(X, y)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def clusters():
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    return np.repeat(centres, 20, axis=0) + rng.normal(size=(60, 2)), np.repeat(["a", "b", "c"], 20)
