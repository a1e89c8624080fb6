"""The command line: what it prints, what it exits with, and that mistakes end as one sentence."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest
from typer.testing import CliRunner

from npsvm_cvx import available, cli, load, verification
from npsvm_cvx.commands import report as reports
from npsvm_cvx.datasets import DATASETS, VARIANTS
from npsvm_cvx.errors import NPSVMError
from npsvm_cvx.evidence import Row
from npsvm_cvx.scaffold import class_name, create, template
from npsvm_cvx.verification import Verification

FAST = ["--solver", "clarabel"]
VERIFY = verification


def run(*arguments, env=None):
    return CliRunner(env={"COLUMNS": "100", **(env or {})}).invoke(cli.app, [str(a) for a in arguments])


def refused(*arguments):
    """Run a wrong command: exit 2, one line on standard error, nothing on standard output; return the line."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("npsvm: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def planted(folder, name, kind, old, new):
    """Write a template in which one thing is changed."""
    path = create(name, kind, folder)
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


# --- list, show, version ---------------------------------------------------------------------------------


def test_list_names_every_formulation_with_its_title_scheme_and_solver():
    result = run("list")
    assert result.exit_code == 0
    firsts = [line.split()[0] for line in result.stdout.splitlines() if line and not line.startswith(" ")]
    assert firsts == available()
    assert "Hinge nonparallel hyperplanes SVM" in result.stdout
    assert "farthest; C1=1, C2=1, d=0.5; SOR: box and separable quadratic" in result.stdout
    assert "SOR: box linear program" in result.stdout


def test_list_data_names_every_set():
    result = run("list", "--data")
    assert result.exit_code == 0
    assert [name for name in (*DATASETS, *VARIANTS) if f"\n{name} " not in result.stdout] == []
    assert "iris                 150         4         3" in result.stdout  # Fisher's: 150 x 4, 3 classes


@pytest.mark.parametrize("name", available())
def test_show_prints_the_statement_as_it_is_written(name):
    result = run("show", name, env={"COLUMNS": "60"})
    assert result.exit_code == 0
    assert inspect.getdoc(sys.modules[load(name).__module__]) in result.stdout
    assert "read off the declared dual at" in " ".join(result.stdout.split())


def test_show_reads_the_numbers_in_words():
    # NPPC at C2 = 1, d = 1/2: h(a) = -a + (a - 1/2)^2 / 2 = 1/8 - 3/2 a + 1/2 a^2, from its dual by hand
    nppc = run("show", "nppc").stdout
    assert "h(a) = -1.5 a + 0.5 a^2 + 0.125" in nppc
    assert "each multiplier is free" in nppc
    assert "(0, 1)" in nppc
    assert "LS-TWSVM as d -> 0" in nppc
    assert "each multiplier lies between -0.5 and 1" in run("show", "pinball").stdout  # [-tau C2, C2]
    lp = run("show", "l1_ls_twsvm").stdout
    assert "R'a - S'b - n = 0" in lp
    assert "a, one a row of R: each lies between -1 and 1 and gains a" in lp


def test_show_says_why_the_fast_solver_does_not_apply(here):
    path = create("bare", "loss", here)
    text = path.read_text(encoding="utf-8")
    bare = text[: text.index("    # The conjugate")]
    path.write_text(bare, encoding="utf-8")
    # u^2 has the conjugate v + v^2 / 4 on v <= 0, by hand; it is derived where it is not declared
    shown = run("show", path).stdout
    assert "h(a) = -a + 0.25 a^2" in shown
    assert "derived: L*(v) = v + v^2/(2 s) on v <= 0" in shown
    assert "return v + cp.square(v) / (2 * self.s), [v <= 0]" in shown
    path.write_text(bare.replace("self.s * cp.square(cp.pos(1 - t)) / 2", "cp.logistic(-t)"), encoding="utf-8")
    result = run("show", path)
    assert result.exit_code == 0
    assert "not used: Bare declares no conjugate, and none follows from its values" in " ".join(result.stdout.split())


def test_version():
    assert run("--version").stdout == "npsvm 0.1.0\n"


def test_no_command_shows_the_help():
    result = run()
    assert result.exit_code == 2
    assert "Commands:" in result.stdout


# --- verify ----------------------------------------------------------------------------------------------


def test_verify_prints_one_line_a_check_and_how_many_ran():
    result = run("verify", "hnpsvm", "--set", "C2=4", *FAST)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("HNPSVM(C1=1.0, C2=4.0) on a seeded instance (60 x 3, 3 classes): passed in ")
    lines = result.stdout.splitlines()
    assert sum(line.startswith("strong duality") for line in lines) == 1
    (counts,) = [line for line in lines if " ran: " in line]
    ran, total = int(counts.split()[0]), int(counts.split()[2])
    assert 0 < ran < total  # the conjugate of a formulation without a loss is a skip, and is not counted as run
    assert "\x1b" not in result.output
    assert all(line == line.rstrip() for line in lines)


def test_verify_all_rows_shows_every_row():
    result = run("verify", "ls_twsvm", "--all-rows", *FAST)
    assert result.exit_code == 0
    assert sum(line.startswith(("a ", "b ", "c ")) for line in result.stdout.splitlines()) > 40


def test_verify_json_is_pure_and_complete(here):
    talkative = create("talkative", "loss", here)
    talkative.write_text(talkative.read_text(encoding="utf-8") + "\n\nprint('hello')\n", encoding="utf-8")
    result = run("verify", "ls_twsvm", talkative, "--json", *FAST)
    assert result.exit_code == 0
    answers = json.loads(result.stdout)
    assert [answer["formulation"] for answer in answers] == [
        "LSTWSVM(C1=1.0, C2=1.0)",
        "Talkative(C1=1.0, C2=1.0, s=2.0)",
    ]
    assert all(answer["passed"] and answer["counts"]["fail"] == 0 for answer in answers)
    assert set(answers[0]["rows"][0]) >= {"check", "value", "tolerance", "status", "meaning", "plane", "solver"}


@pytest.mark.parametrize(
    ("kind", "old", "new", "sentence"),
    [
        ("formulation", "sum_squares(F.T @ a) / 2)", "sum_squares(F.T @ a))", "the coefficient of a'Qa is -1"),
        ("formulation", ', "upper": a <= self.C2', "", "upper bound of a: none is declared"),
        ("formulation", "plane=plane_from_dual", "plane=-plane_from_dual", "-1 times the plane"),
        ("loss", "[v <= 0]", "[v <= 1]", "conjugate domain"),
    ],
    ids=["lost half", "no upper bound", "recovery sign", "conjugate domain"],
)  # fmt: skip
def test_a_planted_mistake_exits_1_with_the_sentence(here, kind, old, new, sentence):
    path = planted(here, "wrong", kind, old, new)
    for columns in ("100", "60"):  # the diagnosis is wrapped, never cut
        result = run("verify", path, *FAST, env={"COLUMNS": columns})
        assert result.exit_code == 1
        assert sentence in " ".join(result.stdout.split())
        assert "FAILED" in result.stdout
        assert max(map(len, result.stdout.splitlines())) <= int(columns)
    answer = json.loads(run("verify", path, "--json", *FAST).stdout)[0]
    assert not answer["passed"]
    assert sentence in answer["diagnosis"]


def test_a_formulation_that_raises_is_a_failure_not_a_wrong_command(here):
    path = planted(here, "raises", "loss", "return self.s * cp.square", "return self.missing * cp.square")
    result = run("verify", path, "ls_twsvm", *FAST)
    assert result.exit_code == 1
    assert "AttributeError" in result.stdout
    assert "1 of 2 formulations passed." in result.stdout


def test_shortfalls_of_solvers_are_shown_as_such(monkeypatch):
    rows = [
        Row("strong duality", 1e-9, 1e-6, "pass", "equal", "a", "clarabel"),
        Row("KKT", 1e-3, 1e-6, "solver", "osqp [margin] stopped early", "a", "osqp"),
        Row("strong duality", 1e-3, 1e-6, "solver", "osqp [margin] stopped early", "a", "osqp"),
        *(Row("KKT", 1e-3, 1e-6, "solver", f"note {i}", "b", "osqp") for i in range(9)),
        Row("conic dual", 0.0, 1e-6, "pass", "equal", "b"),
        Row("conjugate", float("nan"), float("nan"), "skip", "none declared", "b"),
    ]  # fmt: skip
    monkeypatch.setattr(VERIFY, "verify", lambda *_, **__: Verification("F()", "your data", rows))
    result = run("verify", "hnpsvm")
    assert result.exit_code == 0
    assert "2 of 14 ran: 2 pass, 0 fail; not run: 11 solver, 1 skip." in result.stdout
    assert "solver: plane a: osqp [margin] stopped early (KKT, strong duality)" in result.stdout
    assert "solver: and 5 more; --all-rows shows them" in result.stdout


def test_nothing_shown_wrong_is_not_a_pass(monkeypatch):
    rows = [Row("strong duality", 1.0, 1e-6, "solver", "stopped early", "a", "osqp")]
    monkeypatch.setattr(VERIFY, "verify", lambda *_, **__: Verification("F()", "your data", rows))
    result = run("verify", "hnpsvm")
    assert result.exit_code == 1
    assert "not shown right" in result.stdout
    assert "no solver was accurate enough" in result.stdout


def test_data_by_name_is_subsampled_with_a_note():
    result = run("verify", "ls_twsvm", "--data", "pima_indian", "--max-rows", "40", *FAST)
    assert result.exit_code == 0
    assert "pima_indian has 768 rows; 40 of them are verified" in result.stderr
    assert "on pima_indian (768 x 8, 40 rows of it): passed" in result.stdout


def test_a_file_with_missing_values_and_a_named_target(here):
    Path("own.csv").write_text("kind,x,y\na,1,2\nb,,3\na,2,2\nb,5,NA\na,1,1\n", encoding="utf-8")
    result = run(
        "verify", "ls_twsvm", "--data", "own.csv", "--target", "kind", "--kernel", "rbf", "--gamma", "0.5", *FAST
    )
    assert result.exit_code == 0, result.output
    assert "own.csv: 2 missing values are filled in" in result.stderr
    assert "on own.csv (5 x 2), rbf kernel: passed" in result.stdout


def test_set_applies_where_the_hyperparameter_is_and_says_where_not():
    result = run("verify", "ls_twsvm", "twsvm", "--set", "eps=0.01", *FAST)
    assert result.exit_code == 0
    assert "TWSVM(C2=1.0, eps=0.01)" in result.stdout
    assert "eps is not a hyperparameter of LSTWSVM" in result.stderr
    assert "0 of 2 done: ls_twsvm\n1 of 2 done, about" in result.stderr  # plain lines where there is no terminal


# --- wrong commands --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("verfy", "verify"),
        ("verify --sovler x", "--solver"),
        ("verify hnpsmv", "did you mean 'hnpsvm'"),
        ("verify nope.py", "no such file"),
        ("verify ./thing.txt", "neither a formulation's name nor a .py file"),
        ("verify hnpsvm --set C1", "C1=0.5"),
        ("verify hnpsvm --set C1=x", "not a number"),
        ("verify hnpsvm --set C1=-1", "C1=-1.0 must lie in (0, inf)"),
        ("verify hnpsvm --set C1=nan", "C1=nan must be finite"),
        ("verify nppc --set d=1", "d=1.0 must lie in (0, 1)"),
        ("verify hnpsvm --set C3=1", "'C3' is not known"),
        ("verify hnpsvm --kernel rbf --gamma -1", "gamma='-1' must be a positive number"),
        ("verify hnpsvm --kernel rbf --gamma inf", "gamma='inf'"),
        ("verify hnpsvm --kernel rfb", "did you mean 'rbf'"),
        ("verify hnpsvm --kernel chi2 --data iris", "kernel='chi2' does not suit the data"),
        ("verify hnpsvm --solver osqq", "did you mean 'osqp'"),
        ("verify hnpsvm --solver clarabel,osqq", "did you mean 'osqp'"),
        ("verify hnpsvm --scheme neerest", "did you mean 'nearest'"),
        ("verify hnpsvm --data irs", "did you mean 'iris'"),
        ("verify hnpsvm --data nope.csv", "data: there is no file 'nope.csv'"),
        ("verify hnpsvm --data .", "data: '.' is not a file"),
        ("verify hnpsvm --data iris --target x", "has its labels already"),
        ("verify hnpsvm --target x", "give the file with --data"),
        ("verify hnpsvm --max-rows 1", "--max-rows"),
        ("verify hnpsvm --max-rows many", "--max-rows"),
        ("show hnpsmv", "did you mean 'hnpsvm'"),
        ("show", "FORMULATION"),
        ("report verifications", "did you mean 'verification'"),
        ("report verification --jobs 0", "--jobs"),
        ("new 1x", "not a Python identifier"),
        ("new class", "not a Python identifier"),
        ("new mine.py", "write 'mine', without the ending"),
        ("new numpy", "would hide the Python module"),
    ],
)
def test_a_wrong_command_is_one_line(here, arguments, says):
    Path("thing.txt").write_text("hello\n", encoding="utf-8")
    line = refused(*arguments.split())
    assert says.lower() in line.replace("NAME|FILE.py", "FORMULATION").lower()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("class (:\n", "file.py, line 1, raised SyntaxError"),
        ("x = 1\nx / 0\n", "file.py, line 2, raised ZeroDivisionError"),
        ("import sys\nsys.exit()\n", "file.py, line 2, raised SystemExit"),
        ("x = 1\n", "found 0 (none)"),
        (template("one", "loss") + template("two", "formulation"), "found 2 (One, Two)"),
    ],
    ids=["syntax", "raises", "exits", "none", "two"],
)
def test_a_file_that_is_no_formulation(here, text, says):
    Path("file.py").write_text(text, encoding="utf-8")
    assert says in refused("verify", "file.py")
    assert "Traceback" in run("verify", "file.py", "--traceback").stderr
    assert "file.py" in refused("verify", "file")  # a name was given, and there is a file of that name


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x,y\n1,a\n2,b\n", "no column 'label'"),
        ("x,label\n1,a\n2,a\n", "the one class 'a'"),
        ("x,label\n1,a\n2,\n", "1 missing labels"),
        ("x,label\ninf,a\n2,b\n", "infinite value in column 'x'"),
        ("", "is empty"),
    ],
)
def test_a_table_that_cannot_be_used(here, text, says):
    Path("table.csv").write_text(text, encoding="utf-8")
    assert says in refused("verify", "hnpsvm", "--data", "table.csv", "--target", "label")


def test_an_unexpected_error_names_its_type_and_the_way_to_see_more(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("out of\ncheese")

    monkeypatch.setattr(VERIFY, "verify", broken)
    assert refused("verify", "hnpsvm") == (
        "npsvm: unexpected RuntimeError: out of cheese; run again with --traceback to see where.\n"
    )
    assert "in broken" in run("--traceback", "verify", "hnpsvm").stderr


def test_an_interrupt_is_one_line_and_130(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(VERIFY, "verify", interrupted)
    result = run("verify", "hnpsvm")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "npsvm: interrupted.\n")


# --- report ----------------------------------------------------------------------------------------------


@pytest.fixture
def stub(monkeypatch):
    """A report module that records how it was called and writes two files."""
    calls = []

    def build(out, *, quick, jobs, on_progress):
        calls.append((out, quick, jobs))
        for done in range(4):
            on_progress(done, 3, f"task {done}")
        (out / "README.md").write_text("# Verification\n\nAll 12 passed,\nand none failed.\n\nmore\n", encoding="utf-8")
        (out / "index.html").write_text("<p>", encoding="utf-8")
        return out / "index.html"

    module = types.ModuleType("stub")
    module.build = build
    monkeypatch.setitem(sys.modules, reports.REPORTS["verification"], module)
    return calls


def test_report_passes_its_arguments_on_and_says_where_the_files_are(here, stub):
    result = run("report", "verification", "--quick", "--out", "a/b", "--jobs", "3")
    assert result.exit_code == 0, result.output
    assert stub == [(Path("a/b"), True, 3)]
    assert result.stdout.splitlines() == [
        "All 12 passed, and none failed.",
        "read it: a/b/index.html",
        "beside it in a/b: README.md",
    ]
    assert "3 of 3 done: task 3" in result.stderr


def test_report_has_defaults(here, stub):
    assert run("report", "verification").exit_code == 0
    ((out, quick, jobs),) = stub
    assert (out, quick) == (Path("report-verification"), False)
    assert jobs >= 1


def test_report_folder_that_cannot_be_written(here, stub):
    Path("file").write_text("", encoding="utf-8")
    assert "out='file/sub' cannot be written" in refused("report", "verification", "--out", "file/sub")
    assert stub == []


def test_errors_of_a_report_are_sentences(here, stub, monkeypatch):
    def build(*_, **__):
        raise NPSVMError("the store is half written; delete it.")

    monkeypatch.setattr(sys.modules[reports.REPORTS["verification"]], "build", build)
    assert refused("report", "verification") == "npsvm: the store is half written; delete it.\n"


# --- new -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("flag", "ran"), [("--loss", "conjugate"), ("--formulation", "plane from dual")])
def test_a_template_verifies_as_it_stands(here, flag, ran):
    assert run("new", "my_idea", flag, "--dir", "deep/er").exit_code == 0
    path = Path("deep/er/my_idea.py")
    result = run("verify", path, "--data", "iris", "--max-rows", "60")
    assert result.exit_code == 0, result.output
    assert "MyIdea(C1=1.0" in result.stdout
    (line,) = [line for line in result.stdout.splitlines() if line.startswith(ran)]
    assert "pass" in line
    assert "skip" not in line
    assert "fail" not in line
    assert "[0, 1]" not in run("show", path).stdout
    assert "SOR on whitened rows" in run("show", path).stdout


def test_new_is_a_loss_unless_asked_otherwise(here):
    assert run("new", "plain").stdout == "wrote plain.py\nverify it: npsvm verify plain.py\n"
    assert "class Plain(Loss):" in Path("plain.py").read_text(encoding="utf-8")


def test_new_leaves_what_exists(here):
    Path("taken.py").write_text("mine", encoding="utf-8")
    assert "exists and is left as it is" in refused("new", "taken")
    assert Path("taken.py").read_text(encoding="utf-8") == "mine"
    assert "dir='taken.py' is not a folder" in refused("new", "other", "--dir", "taken.py")


@pytest.mark.parametrize("name", ["loss", "formulation", "program", "cp", "_", "ünder_scored", "x1"])
@pytest.mark.parametrize("kind", ["loss", "formulation"])
def test_the_class_of_a_template_never_hides_what_it_uses(tmp_path, name, kind):
    path = create(name, kind, tmp_path)
    assert load(path).__name__ == class_name(name)
    assert load(path)().program("primal", [[1.0, 1.0]], [[2.0, 1.0]]) is not None


# --- the real thing --------------------------------------------------------------------------------------


def start(*arguments, **options):
    """The entry point in a process of its own."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "", **options.pop("env", {})}
    code = "from npsvm_cvx.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], text=True, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
    )  # fmt: skip


def test_process_exit_code_json_and_ascii(here):
    create("own", "loss", here)
    process = start("verify", "own.py", "--json", *FAST, env={"PYTHONIOENCODING": "ascii", "FORCE_COLOR": "1"})
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out)[0]["passed"] is True
    assert err == ""


def test_process_colours_are_for_terminals(here):
    process = start("list", "--data", env={"FORCE_COLOR": "1", "PYTHONIOENCODING": "ascii"})
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "\x1b" not in out
    assert out.isascii()


def test_process_a_reader_that_goes_away_is_no_error(here):
    process = start("list", "--data")
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=60) == 141
    process.stderr.close()


@pytest.mark.skipif(os.name == "nt", reason="signals of another kind")
def test_process_interrupted(here):
    # clarabel alone, for solvers written in C catch the signal themselves; and a shell's background jobs, such as a
    # test run may be, ignore interrupts and pass that on
    process = start("verify", *FAST, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    assert process.stderr.readline().startswith("0 of ")  # verifying has begun
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert err == "npsvm: interrupted.\n"
    assert process.returncode == 130


def test_a_saved_certificate_is_checked_anew(here):
    import json

    from npsvm_cvx import solve

    proof = solve("hnpsvm", [[1.0, 1.0], [2.0, 1.0]], [[0.0, 1.0]]).proof
    path = here / "plane.json"
    path.write_text(proof.to_json())
    done = run("recheck", path)
    assert done.exit_code == 0
    assert "proved: the plane's value" in done.output
    data = json.loads(path.read_text())
    data["z"]["values"][0] += 0.5  # another plane: what is proved of it is less than what the file claims
    path.write_text(json.dumps(data))
    done = run("recheck", path)
    assert done.exit_code == 1
    assert "which is less than it proves" in done.output


def test_a_readme_that_no_report_wrote_is_not_written_over(here):
    Path("project").mkdir()
    Path("project/README.md").write_text("mine")
    assert "holds a README.md that no report wrote" in refused("report", "paper", "--hours", "0", "--out", "project")
    assert [path.name for path in Path("project").iterdir()] == ["README.md"]


def test_the_store_command_alone_shows_its_help():
    shown = run("store")
    assert shown.exit_code == 2
    assert all(word in shown.stdout for word in ("ls", "gc", "export"))


def test_the_module_runs_as_the_command():
    shown = [
        subprocess.run([*command, "list"], capture_output=True, text=True, check=True).stdout
        for command in (
            [sys.executable, "-m", "npsvm_cvx"],
            [sys.executable, "-c", "from npsvm_cvx.cli import main; main()"],
        )
    ]
    assert shown[0] == shown[1]
    assert "hnpsvm" in shown[0]
