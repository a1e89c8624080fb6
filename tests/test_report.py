import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from npsvm_cvx.errors import NPSVMError
from npsvm_cvx.report import analysis, checker, render, verification
from npsvm_cvx.report.figures import Picture


@pytest.fixture(scope="module")
def small():
    """Three formulations on one set at one setting: the real runner, in this process."""
    rows = []
    for name in ("hnpsvm", "l1_ls_twsvm", "twsvm"):
        corners = ((math.nan, 1.0),) if name == "twsvm" else ((1.0, 1.0),)
        task = verification.Task(name, "iris", "linear", corners, ("clarabel", "osqp"), 40, 2, whole_set=True)
        rows += verification.run(task)
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows  # what the store keeps is what was found
    frame = pd.DataFrame(rows)
    for column in ("C1", "C2", "value", "tolerance", "seconds"):
        frame[column] = pd.to_numeric(frame[column])
    return frame


def test_the_full_report_covers_what_it_says():
    work = verification.tasks(quick=False)
    assert len(work) == 11 * 18 * 2
    assert len({task.key for task in work}) == len(work)
    assert {task.dataset for task in work} == set(analysis.datasets.DATASETS)
    assert all(len(task.corners) == (2 if task.formulation in ("twsvm", "mbsvm") else 4) for task in work)
    assert all(set(task.solvers) == {"clarabel", "osqp", "ecos", "highs", "scs"} for task in work)


def test_the_key_changes_with_the_setting_and_the_package(monkeypatch):
    task = verification.tasks(quick=True)[0]
    other = verification.Task(**{**task.__dict__, "max_rows": task.max_rows + 1})
    assert other.key != task.key
    before = task.key
    monkeypatch.setattr(verification, "_package_digest", lambda: "another version of the code")
    assert task.key != before


def test_the_report_is_written_whole_and_from_the_table_alone(small, tmp_path):
    page = verification.write(small, tmp_path, quick=True)
    assert {p.name for p in tmp_path.iterdir()} == {
        "index.html", "README.md", "verification.csv", "agreement.svg", "agreement.png", "solvers.svg", "solvers.png",
    }  # fmt: skip
    text = page.read_text(encoding="utf-8")
    assert "All 3 formulations are verified" in text
    assert not re.findall(r'(?:src|href)="?(?:https?:)?//', text), "the page loads nothing"
    HTMLParser().feed(text)
    csv = pd.read_csv(tmp_path / "verification.csv")
    assert set(csv["formulation"]) == {"hnpsvm", "l1_ls_twsvm", "twsvm"}
    assert not csv.duplicated(["formulation", "dataset", "kernel", "C1", "C2", "check", "solver", "claim"]).any()
    assert "SOR on the whole set" in set(csv["check"])


def test_a_failure_is_the_answer(small):
    broken = small.copy()
    at = broken.index[broken["check"] == "strong duality"][0]
    broken.loc[at, ["status", "meaning"]] = ["fail", "the primal is 1, the dual 2"]
    report = analysis.summarise(broken, quick=True)
    assert not report.passed
    assert report.answer.startswith("1 of ")
    assert "the primal is 1, the dual 2" in report.answer
    assert report.tables[-1].title == "What failed"


def test_skips_and_shortfalls_are_not_counted_as_passed(small):
    facts = dict(analysis.summarise(small, quick=True).facts)
    counted = {
        name: int(facts[name].replace(",", "")) for name in ("checks passed", "solver fell short", "do not apply")
    }
    assert counted["checks passed"] == int((small["status"] == "pass").sum())
    assert sum(counted.values()) == len(small)
    assert facts["planes"] == "6"  # three formulations, two planes of one set each


def test_digits():
    # -log10 of a relative figure, cut at 16; nothing known is nothing shown; infinite error is no digit
    assert analysis.digits(1e-9) == pytest.approx(9.0)
    assert analysis.digits(0.0) == 16.0
    assert analysis.digits(3.0) == 0.0
    assert analysis.digits(np.inf) == 0.0
    assert analysis.digits(np.nan) is None


def test_cells_are_escaped_in_markdown_and_html():
    table = analysis.Table("T", "", ["a|b", "meaning"], [["x_y|<z>", "1 < 2 & 3"]])
    report = analysis.Report("Verification", "a <b> & c", True, [("n", "1")], [table], ["note <i>"], [("date", "x")])
    page = render.html(report, [])
    assert "a &lt;b&gt; &amp; c" in page
    assert "1 &lt; 2 &amp; 3" in page
    text = render.markdown(report, [])
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1, "every row has as many cells"


def test_a_figure_is_drawn_the_same_twice(small, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        verification.figures.draw(small, tmp_path / name)
    assert (tmp_path / "one/agreement.svg").read_bytes() == (tmp_path / "two/agreement.svg").read_bytes()


def test_an_interrupted_run_continues(tmp_path, monkeypatch):
    tasks = [
        verification.Task(name, "iris", "linear", ((1.0, 1.0),), ("clarabel",), 30, 1, whole_set=False)
        for name in ("hnpsvm", "ls_twsvm", "tbsvm")
    ]
    monkeypatch.setattr(verification, "tasks", lambda quick: tasks)
    monkeypatch.setattr(checker, "size", lambda quick: 0)
    monkeypatch.setattr(checker, "collect", lambda *given, **options: [])
    seen = []

    def stop_after_one(done, total, name):
        seen.append((done, name))
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verification.build(tmp_path, jobs=1, on_progress=stop_after_one)
    seen.clear()
    page = verification.build(tmp_path, jobs=1, on_progress=lambda *now: seen.append(now))
    assert seen[0][0] >= 1, "what was done is not done again"
    assert seen[-1][:2] == (3, 3)
    assert page.exists()
    first = (tmp_path / "verification.csv").read_bytes()
    verification.build(tmp_path, jobs=1)
    assert (tmp_path / "verification.csv").read_bytes() == first


def test_bad_arguments_are_named(tmp_path):
    with pytest.raises(NPSVMError, match="jobs=0 must be at least 1"):
        verification.build(tmp_path, jobs=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(NPSVMError, match="cannot be written"):
        verification.build(tmp_path / "file", jobs=1)


def test_a_picture_goes_into_the_page_as_it_is():
    report = analysis.Report("Verification", "yes", True, [], [], [], [])
    page = render.html(report, [Picture("p", "a & b", "<svg><text>x</text></svg>")])
    assert "<svg><text>x</text></svg>" in page
    assert "a &amp; b" in page
