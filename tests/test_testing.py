"""What other people's suites import: one test a check, the diagnosis as its message, and nothing silently not run."""

import subprocess
import sys

import cvxpy as cp
import pytest

from npsvm_cvx import Loss, load, testing
from npsvm_cvx.errors import NPSVMError
from npsvm_cvx.evidence import Row
from npsvm_cvx.testing import CHECKS, TESTS, Check, check_formulation, parametrize_with_checks
from npsvm_cvx.verification import Verification, VerificationError

pytest_plugins = ["pytester"]

RIGHT = """
import cvxpy as cp
from npsvm_cvx import Loss

class Pinball(Loss):
    domain = {"tau": "[0, 1]"}

    def __init__(self, tau=0.5):
        self.tau = tau

    def value(self, t):
        return cp.maximum(1 - t, -self.tau * (1 - t))

    def conjugate(self, v):
        return v, [v >= -1, v <= self.tau]
"""
WRONG = RIGHT.replace("v <= self.tau", "v <= 2 * self.tau")
BROKEN = "raise RuntimeError('no such thing')\n"
HOOKS = "from npsvm_cvx.testing import pytest_collect_file, pytest_pycollect_makemodule\n"
FAST = (
    "import npsvm_cvx.testing\npytest_collect_file = npsvm_cvx.testing.collector(solvers=['clarabel'], max_planes=1)\n"
)


class Hinge(Loss):
    def value(self, t):
        return cp.pos(1 - t)

    def conjugate(self, v):
        return v, [v >= -1, v <= 0]


class Off(Hinge):
    def conjugate(self, v):
        return 2 * v, [v >= -1, v <= 0]


# --- one formulation ------------------------------------------------------------------------------


def test_a_right_one_passes_and_a_wrong_one_raises_its_diagnosis():
    assert check_formulation(Hinge, solvers=["clarabel"], max_planes=1).passed
    assert check_formulation(load("hnpsvm")(C2=4.0), "iris", max_rows=30, solvers=["clarabel"], max_planes=1).passed
    with pytest.raises(VerificationError, match=r"^Off\(.*\) on a seeded instance .*: conjugate value: at v = "):
        check_formulation(Off, solvers=["clarabel"], max_planes=1)
    assert issubclass(VerificationError, AssertionError)


def test_a_file_that_cannot_be_loaded_is_a_failure_not_an_error(tmp_path):
    (tmp_path / "broken.py").write_text(BROKEN)
    with pytest.raises(VerificationError, match=r"broken\.py, line 1, raised RuntimeError: no such thing"):
        check_formulation(tmp_path / "broken.py")


# --- parametrised ---------------------------------------------------------------------------------


@parametrize_with_checks([Hinge, "ls_twsvm"], solvers=["clarabel"], max_planes=1)
def test_the_decorator_as_others_use_it(formulation, check):
    assert check.name in TESTS
    check(formulation)


def cases(formulations):
    return parametrize_with_checks(formulations).mark.args[1]


def test_ids_are_clear_and_none_is_doubled():
    ids = [case.id for case in cases(["hnpsvm", Hinge, "a/loss.py", "b/loss.py"])]
    assert ids[0] == "hnpsvm-declaration"
    assert "Hinge-dual function" in ids
    assert {"loss#1-KKT", "loss#2-KKT"} <= set(ids)
    assert len(set(ids)) == len(ids) == 4 * len(TESTS)


def test_an_empty_list_and_a_lone_name_are_refused():
    with pytest.raises(NPSVMError, match="formulations is empty"):
        parametrize_with_checks([])
    with pytest.raises(NPSVMError, match=r"must be a list; write \['hnpsvm'\]"):
        parametrize_with_checks("hnpsvm")


def test_a_formulation_is_verified_once(monkeypatch):
    calls = []
    monkeypatch.setattr(testing, "verify", lambda *given, **options: calls.append(given) or answer(row("KKT")))
    for case in cases(["hnpsvm"]):
        formulation, check = case.values
        try:
            check(formulation)
        except (pytest.skip.Exception, VerificationError):
            continue
    assert len(calls) == 1
    with pytest.raises(VerificationError):  # another one than it was made for is verified anew
        Check("decided", testing._Answer("hnpsvm", {}))("ls_twsvm")
    assert len(calls) == 2


# --- what a status means --------------------------------------------------------------------------


def row(check, status="pass", meaning="a sentence", **rest):
    return Row(check, 0.0, 1.0, status, meaning, plane="1", **rest)


def answer(*rows):
    return Verification("F()", "data", list(rows))


def outcome(test, *rows):
    """Return pass, fail or skip, and the reason."""
    given = testing._Answer("F", {})
    given._found = answer(*rows)
    try:
        testing._conclude(test, given)
    except VerificationError as error:
        return "fail", str(error)
    except pytest.skip.Exception as reason:
        return "skip", str(reason)
    return "pass", ""


def test_each_status_has_its_outcome():
    assert outcome("KKT", row("KKT")) == ("pass", "")
    assert outcome("KKT", row("KKT", "skip", "no dual")) == ("skip", "does not apply: no dual")
    kind, why = outcome("KKT", row("KKT", "solver", "osqp stopped early"))
    assert (kind, why) == ("skip", "a solver, not the formulation, fell short: osqp stopped early")
    assert outcome("KKT", row("KKT"), row("KKT", "solver"))[0] == "pass"  # another solver's row passed
    kind, why = outcome("KKT", row("KKT"), row("KKT", "fail", "it is wrong", solver="osqp"))
    assert kind == "fail"
    assert why == "F() on data: it is wrong"
    kind, why = outcome("KKT", row("dual domain", "fail", "too wide"), row("KKT", "fail", "negative", solver="osqp"))
    assert why.splitlines() == [
        "F() on data: too wide (and so KKT disagree)",
        "KKT (plane 1, osqp): negative",
    ]
    assert outcome("conjugate", row("curvature", "fail", "curved"))[1] == "not reached: curved"


def test_nothing_decisive_is_a_failure():
    kind, why = outcome("decided", row("curvature"), row("strong duality", "solver"))
    assert kind == "fail"
    assert "no solver was accurate enough" in why
    assert outcome("decided", row("strong duality"))[0] == "pass"
    assert outcome("decided", row("KKT", "fail"))[0] == "skip"  # that one fails and says what


def test_a_check_that_is_missing_is_noticed():
    full = [row(name) for name in CHECKS if name != "declaration"]
    assert outcome("accounted", *full)[0] == "pass"
    kind, why = outcome("accounted", *(r for r in full if r.check != "conjugate"))
    assert (kind, "conjugate did not run" in why) == ("fail", True)
    kind, why = outcome("accounted", *full, row("a new check"))
    assert (kind, "a new check is not known" in why) == ("fail", True)


def test_every_check_of_the_toolkit_has_a_test():
    found = check_formulation("pinball", solvers=["clarabel"])
    assert {r.check for r in found.rows} == set(CHECKS) - {"declaration"}


# --- a folder -------------------------------------------------------------------------------------


def folder(pytester, conftest=FAST, **files):
    made = pytester.mkdir("formulations")
    (made / "conftest.py").write_text(conftest)
    for name, text in files.items():
        (made / f"{name}.py").write_text(text)
    return made


def test_a_folder_is_one_line_in_a_conftest(pytester):
    made = folder(pytester, right=RIGHT, wrong=WRONG, broken=BROKEN, empty="", _helper=BROKEN, test_own="")
    (made / "sub").mkdir()
    (made / "sub" / "right.py").write_text(RIGHT.replace("Pinball", "Another"))  # the same name, another file
    (made / "sub" / "conftest.py").write_text("")  # somebody's own, which promises no formulations
    (made / "notes.md").write_text("no formulation")
    found = pytester.runpytest("-ra", "-p", "no:cacheprovider", "formulations")
    text = found.stdout.str()
    counts = found.parseoutcomes()
    assert sum(counts.values()) == 5 * len(TESTS) + 1  # two right, one wrong, broken, empty; and the count of files
    assert "errors" not in counts
    failed = [line for line in text.splitlines() if line.startswith("FAILED")]
    assert any(line.startswith("FAILED formulations/broken.py::declaration") for line in failed)
    assert any(line.startswith("FAILED formulations/empty.py::declaration") for line in failed)
    assert not [line for line in failed if "right.py" in line]
    wrong = [line for line in failed if "wrong.py" in line]
    assert any("wrong.py::conjugate" in line for line in wrong)
    assert counts["failed"] == 2 + len(wrong)
    assert "conjugate domain" in text
    assert "empty.py must declare one Formulation or one Loss; found 0" in text
    assert "Traceback" not in text
    assert "testing.py:" not in "".join(line for line in text.splitlines() if not line.startswith("SKIPPED"))


def test_an_empty_folder_fails(pytester):
    folder(pytester, _helper="")
    found = pytester.runpytest("-p", "no:cacheprovider", "formulations")
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["*formulations holds no formulation: there is nothing to check.*"])


def test_a_broken_file_named_on_the_command_line_is_a_failed_test(pytester):
    folder(pytester, HOOKS, broken=BROKEN)
    found = pytester.runpytest("-p", "no:cacheprovider", "formulations/broken.py")
    found.assert_outcomes(failed=1, skipped=len(TESTS) - 1)


def test_pytest_is_not_imported_by_the_package():
    code = "import sys, npsvm_cvx, npsvm_cvx.testing; print('pytest' in sys.modules, '_pytest' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert run.stdout.split() == ["False", "False"]
