"""The folder is the registry: names, paths, classes and objects become formulations, or one line says why not."""

import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import cvxpy as cp
import npsvm_cvx.formulations
import numpy as np
import oracle
import pytest
from sklearn.base import clone

from npsvm_cvx import Formulation, Framework, Loss, Program, available, load, solve
from npsvm_cvx.catalog import framework_class, resolve
from npsvm_cvx.errors import CurvatureError, FormulationError, NPSVMError
from npsvm_cvx.framework import conjugate_of

FOLDER = Path(npsvm_cvx.formulations.__file__).parent
LOSS = '''"""A loss."""
import cvxpy as cp
from npsvm_cvx import Loss

class Mine(Loss):
    """My loss."""
    domain = {"s": "(0, inf)"}

    def __init__(self, s=2.0):
        self.s = s

    def value(self, t):
        return self.s * cp.pos(1 - t)

    def conjugate(self, v):
        return v, [v >= -self.s, v <= 0]
'''


def write(folder, text, name="mine.py"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_names_are_the_folders_files():
    assert available() == sorted(p.stem for p in FOLDER.glob("[!_]*.py"))


def test_the_same_name_is_the_same_class():
    for name in available():
        assert load(name) is load(name)


def test_an_unknown_name_has_a_nearest():
    with pytest.raises(NPSVMError, match=r"formulation='hnpsmv' is not known; did you mean 'hnpsvm'\?") as caught:
        load("hnpsmv")
    assert all(name in str(caught.value) for name in available())
    with pytest.raises(NPSVMError, match=r"formulation='zzz' is not known\. Choices:"):
        load("zzz")


def test_a_loss_file_is_a_formulation(tmp_path):
    cls = load(write(tmp_path, LOSS))
    assert issubclass(cls, Framework)
    assert cls().get_params() == {"C1": 1.0, "C2": 1.0, "s": 2.0}
    assert cls(2.0, 3.0, 4.0).get_params() == {"C1": 2.0, "C2": 3.0, "s": 4.0}
    assert cls(s=4.0).loss.s == 4.0
    assert clone(cls()).set_params(s=5.0).loss.s == 5.0
    assert "My loss" in cls.__doc__
    # s pos(u) with C2 is the hinge with s C2: closed identity
    S, R = oracle.matrices()
    best = oracle.optimum("hnpsvm", {"C1": 1.0, "C2": 6.0}, S, R).value
    assert solve(cls(C2=3.0), S, R).primal == pytest.approx(best, rel=1e-8)
    with pytest.raises(NPSVMError, match="s=-1"):
        cls(s=-1).program("primal", S, R)
    with pytest.raises(TypeError):
        cls(wrong=1)


def test_paths_may_be_strings_relative_or_of_odd_names(tmp_path, monkeypatch):
    write(tmp_path, LOSS, "my loss-2.py")
    monkeypatch.chdir(tmp_path)
    for source in ("my loss-2.py", "./my loss-2.py", Path("my loss-2.py"), str(tmp_path / "my loss-2.py")):
        assert load(source).__name__ == "Mine"


def test_an_edited_file_is_a_new_class_and_old_instances_stay(tmp_path):
    path = write(tmp_path, LOSS)
    old = load(path)
    assert load(path) is old
    path.write_text(LOSS.replace("s=2.0", "s=3.0"), encoding="utf-8")
    new = load(path)
    assert (old().s, new().s) == (2.0, 3.0)


def test_instances_of_a_file_travel_to_other_processes(tmp_path):
    one = load(write(tmp_path, LOSS))(s=3.0)
    pickled = tmp_path / "one.pickle"
    pickled.write_bytes(pickle.dumps(one))
    code = f"import pickle; f = pickle.load(open({str(pickled)!r}, 'rb')); print(type(f).__name__, f.s)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert run.stdout.split() == ["Mine", "3.0"]


def test_a_file_dropped_into_the_folder_is_available(tmp_path, monkeypatch):
    copied = tmp_path / "formulations"
    shutil.copytree(FOLDER, copied, ignore=shutil.ignore_patterns("__pycache__"))
    write(copied, LOSS, "dropped.py")
    write(copied, LOSS, "_private.py")
    monkeypatch.setattr("npsvm_cvx.catalog._folder", lambda: copied)
    assert "dropped" in available()
    assert "_private" not in available()
    assert load("dropped").__name__ == "Mine"
    sys.modules.pop("npsvm_cvx.formulations.dropped")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must declare one Formulation or one Loss; found 0"),
        ("x = 1", "must declare one Formulation or one Loss; found 0"),
        ("from npsvm_cvx import Loss, Formulation", "found 0"),  # imported, not declared
        (LOSS + "\nclass Other(Loss):\n    pass\n", r"found 2 \(Mine, Other\)"),
        ("def f(:\n", r"mine.py, line 1, raised SyntaxError"),
        ("import cvxpy\n\n1 / 0\n", r"mine.py, line 3, raised ZeroDivisionError: division by zero"),
        ("import a_module_that_is_not_there\n", r"line 1, raised ModuleNotFoundError"),
        ("raise SystemExit(3)\n", r"line 1, raised SystemExit"),
        (LOSS.replace("def __init__(self, s=2.0)", "def __init__(self, C2=2.0)").replace("self.s = s", "self.C2 = C2"),
         "the name C2 is the framework's"),
        (LOSS.replace("def __init__(self, s=2.0)", "def __init__(self, ridge=2.0)").replace("self.s", "self.ridge"),
         "the name ridge is the framework's"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_formulation(tmp_path, text, message):
    with pytest.raises(FormulationError, match=message) as caught:
        load(write(tmp_path, text))
    assert "\n" not in str(caught.value)
    assert "mine.py" in str(caught.value) or "Mine" in str(caught.value)


def test_a_broken_file_can_be_mended_and_loaded(tmp_path):
    path = write(tmp_path, "1 / 0")
    with pytest.raises(FormulationError):
        load(path)
    path.write_text(LOSS, encoding="utf-8")
    assert load(path).__name__ == "Mine"


@pytest.mark.parametrize("source", ["missing.py", "/nowhere/missing.py"])
def test_no_such_file(source):
    with pytest.raises(NPSVMError, match="there is no such file"):
        load(source)


def test_a_path_that_is_no_python_file():
    with pytest.raises(NPSVMError, match="formulation='some/where'"):
        load("some/where")


def test_subclasses_in_one_file_count_once(tmp_path):
    # a base and what derives from it: the last of the line is what the file declares
    text = LOSS + "\nclass Final(Mine):\n    def __init__(self, s=9.0):\n        self.s = s\n"
    assert load(write(tmp_path, text)).__name__ == "Final"


# --- resolve --------------------------------------------------------------------------------------


class Flat(Loss):
    def value(self, t):
        return cp.pos(1 - t)

    def conjugate(self, v):
        return v, [v >= -1, v <= 0]


class NoDefault(Formulation):
    def __init__(self, C1):
        self.C1 = C1


def test_everything_that_stands_for_a_formulation(tmp_path):
    made = load("hnpsvm")(2.0, 3.0)
    assert resolve(made) is made
    assert type(resolve("hnpsvm")) is load("hnpsvm")
    assert type(resolve(load("hnpsvm"))) is load("hnpsvm")
    assert isinstance(resolve(Flat), Framework)
    assert isinstance(resolve(Flat()), Framework)
    assert type(resolve(write(tmp_path, LOSS))).__name__ == "Mine"
    assert framework_class(Flat)(C2=3.0).C2 == 3.0


@pytest.mark.parametrize("bad", [None, 3, ["hnpsvm"], int, object()])
def test_what_does_not(bad):
    with pytest.raises(NPSVMError, match="formulation must be a name, a path, or a Formulation or Loss"):
        resolve(bad)


def test_a_class_without_defaults():
    with pytest.raises(FormulationError, match="NoDefault: every hyperparameter needs a default"):
        resolve(NoDefault)


# --- what a program must be -----------------------------------------------------------------------

z = cp.Variable(4)


def declaring(primal, dual=lambda S, R: None):
    body = {"primal": lambda self, S, R: primal(S, R), "dual": lambda self, S, R: dual(S, R)}
    return type("Given", (Formulation,), body)()


@pytest.mark.parametrize(
    ("primal", "message"),
    [
        (lambda S, R: None, "Given.primal returned None, not a Program"),
        (lambda S, R: cp.Problem(cp.Minimize(0)), "Given.primal returned a Problem, not a Program"),
        (lambda S, R: Program(cp.sum_squares(z), {}, z), "objective must be cp.Minimize or cp.Maximize"),
        (lambda S, R: Program(cp.Maximize(-cp.sum_squares(z)), {}, z), "must be a cp.Minimize; found cp.Maximize"),
        (lambda S, R: Program(cp.Minimize(cp.sum_squares(z)), [z >= 0], z), "constraints must be a dict"),
        (lambda S, R: Program(cp.Minimize(cp.sum_squares(z)), {"a": True}, z), r"constraint \[a\] is a bool"),
        (lambda S, R: Program(cp.Minimize(cp.sum_squares(z)), {}, z[:2]), r"the plane has shape \(2,\), not \(4,\)"),
        (lambda S, R: Program(cp.Minimize(cp.sum_squares(z)), {}, "no"), r"the plane is the multiplier of \[no\]"),
        (lambda S, R: 1 / 0, "Given.primal raised ZeroDivisionError: division by zero"),
        (lambda S, R: Program(cp.Minimize(cp.sum(S @ cp.Variable(9))), {}, z), "Given.primal raised ValueError"),
    ],
)
def test_a_declaration_that_cannot_be_used_is_one_line(primal, message):
    S, R = oracle.matrices()
    with pytest.raises(FormulationError, match=message) as caught:
        declaring(primal).program("primal", S, R)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("primal", "message"),
    [
        (lambda S, R: Program(cp.Minimize(cp.sum(cp.sqrt(z))), {}, z), "not convex by CVXPY's rules.*objective"),
        (lambda S, R: Program(cp.Minimize(cp.sum_squares(z)), {"bad": cp.sqrt(z) <= 1}, z), r"constraint \[bad\]"),
    ],
)
def test_curvature_names_the_place(primal, message):
    with pytest.raises(CurvatureError, match=message):
        declaring(primal).program("primal", *oracle.matrices())


def test_a_dual_must_name_the_primals_constraints():
    a = cp.Variable(5)

    def primal(S, R):
        return Program(cp.Minimize(cp.sum_squares(z)), {"margin": R @ z >= 1}, z)

    def dual(multipliers):
        return lambda S, R: Program(cp.Maximize(-cp.sum_squares(a)), {"low": a >= 0}, R.T @ a, multipliers)

    S, R = oracle.matrices()
    with pytest.raises(FormulationError, match=r"multiplier for \[margn\]; the primal's constraints are \[margin\]"):
        declaring(primal, dual({"margn": a})).program("dual", S, R)
    with pytest.raises(FormulationError, match=r"multiplier of \[margin\] has shape \(2,\), the constraint has \(5,\)"):
        declaring(primal, dual({"margin": a[:2]})).program("dual", S, R)
    assert declaring(primal, dual({"margin": a})).program("dual", S, R) is not None


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (lambda self, t: cp.sum(cp.pos(1 - t)), FormulationError, "one loss a sample"),
        (lambda self, t: 3.0, FormulationError, "one loss a sample"),
        (lambda self, t: cp.minimum(1 - t, 0), CurvatureError, "not convex"),
        (lambda self, t: cp.sqrt(t), CurvatureError, "not convex"),
    ],
)
def test_a_loss_that_is_none(value, error, message):
    loss = type("Bad", (Loss,), {"value": value})
    with pytest.raises(error, match=message):
        resolve(loss).program("primal", *oracle.matrices())


@pytest.mark.parametrize(
    ("conjugate", "message"),
    [
        (lambda self, v: v, r"must return \(value, \[constraints\]\)"),
        (lambda self, v: (v, [True]), "the domain holds a bool"),
        (lambda self, v: (v[:2], []), r"the value has shape \(2,\)"),
    ],
)
def test_a_conjugate_that_is_none(conjugate, message):
    loss = type("Bad", (Flat,), {"conjugate": conjugate})()
    with pytest.raises(FormulationError, match=message):
        conjugate_of(loss, cp.Variable(5))


def test_matrices_are_checked_before_the_file_sees_them():
    formulation = load("hnpsvm")()
    S, R = oracle.matrices()
    with pytest.raises(NPSVMError, match="as many columns"):
        formulation.program("primal", S[:, :2], R)
    with pytest.raises(NPSVMError, match="finite"):
        formulation.program("primal", S * float("nan"), R)


@pytest.mark.parametrize(("plane", "found"), [(None, "None"), (np.zeros(4), "a ndarray"), (3, "a int")])
def test_a_plane_that_is_no_expression(plane, found):
    class Given(Formulation):
        def primal(self, S, R):
            return Program(cp.Minimize(cp.sum_squares(cp.Variable(4))), {}, plane)

    with pytest.raises(FormulationError, match=f"the plane is {found}"):
        Given().program("primal", *oracle.matrices())
