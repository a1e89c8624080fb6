"""The appendix on the checker itself: its covering sample, its tables, and its place in a written report."""

import itertools
import json
import math
import re

import pandas as pd
import pytest

from npsvm_cvx import load
from npsvm_cvx.errors import NPSVMError
from npsvm_cvx.report import alarms, analysis, checker, defects, render
from npsvm_cvx.store import Store


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Four mutants and three originals, judged by the real runners in this process, and the tables of them."""
    out = tmp_path_factory.mktemp("checker")
    every = [task for task in defects.tasks() if task.formulation == "ls_twsvm"]
    places = ("dual objective", "recovery", "dual [extra]", "primal variables")
    mutated = [next(task for task in every if task.mutant.place == place) for place in places]
    sample = [task for task in alarms.tasks() if task.formulation == "ls_twsvm" and task.solver == "clarabel"][:3]
    with pytest.MonkeyPatch.context() as patch, Store(out / "results.sqlite") as store:
        patch.setattr(defects, "tasks", lambda quick=False: mutated)
        patch.setattr(alarms, "tasks", lambda quick=False: sample)
        for task in mutated:
            store.put(task.key, defects.run(task))
        for task in sample:
            store.put(task.key, alarms.run(task))
        seen = []
        tables = checker.collect(store, out, quick=True, jobs=1, on_progress=lambda *now: seen.append(now))
    assert seen[-1][:2] == (7, 7)
    return out, tables


# --- the sample -----------------------------------------------------------------------------------


def test_the_sample_is_large_seeded_and_covers_every_pair():
    sample = alarms.tasks()
    assert len(sample) >= 1000  # what was promised
    assert len({task.key for task in sample}) == len(sample)
    assert alarms.coverage(sample, 2) == 1.0
    assert alarms.coverage(sample, 3) > 0.6
    assert {task.dataset for task in sample} == set(analysis.datasets.DATASETS)
    assert {task.formulation for task in sample} == set(alarms.catalog.available())
    corners = set(itertools.product((2.0**-8, 2.0**8), repeat=2))
    for name in alarms.catalog.available():
        assert corners <= {(t.ridge, t.C2) for t in sample if t.formulation == name}
    assert alarms.tasks(quick=True) == sample[: alarms.QUICK_SIZE]
    alarms._sample.cache_clear()
    assert alarms.tasks() == sample


def test_coverage_is_counted():
    # 3 of the 3 x 2 pairs of the two factors, by hand
    factors = {"a": "xyz", "b": (1, 2)}
    rows = alarms.covering_sample(factors, 1, random_state=0)
    assert {(r["a"], r["b"]) for r in rows} == set(itertools.product("xyz", (1, 2)))
    assert len(rows) == 6


def test_hyperparameters_go_to_the_ends_of_their_intervals():
    assert alarms.set_at(load("pinball"), 4.0, 0.5, "low").get_params() == {"C1": 4.0, "C2": 0.5, "tau": 0.0}
    assert alarms.set_at(load("pinball"), 4.0, 0.5, "high").tau == 1.0  # [0, 1] is closed
    assert alarms.set_at(load("nppc"), 4.0, 0.5, "low").d == pytest.approx(0.02)  # (0, 1) is open
    assert alarms.set_at(load("huber_hinge"), 1.0, 1.0, "high").delta == 2.0**8
    assert alarms.set_at(load("twsvm"), 2.0**-8, 4.0, "high").get_params() == {"C2": 4.0, "eps": 2.0**-8}
    for task in alarms.tasks()[::50]:
        alarms.set_at(load(task.formulation), task.ridge, task.C2, task.own).check_hyperparameters()


def test_an_original_raises_no_alarm():
    (row,) = alarms.run(alarms.Task("twsvm", "iris", "rbf", 2.0**-8, 2.0**8, "default", "clarabel", "farthest", 1))
    assert row["outcome"] == "verified"
    assert row["failed"] == 0
    assert json.loads(json.dumps(row, allow_nan=False)) == row


def test_a_point_outside_its_domain_by_rounding_is_the_solver_s_fault():
    # entries of 2e4 squared over a ridge of 2^-8: SCS is outside a >= 0 by 1e-8 and its value is 4.5e-5 too high
    task = alarms.Task("mbsvm", "ecoli", "poly", 2.0**-8, 16.0, "high", "scs", "nearest", 3)
    (row,) = alarms.run(task)
    assert row["failed"] == 0, row["meaning"]


# --- the tasks ------------------------------------------------------------------------------------


def test_the_quick_mutants_are_a_seeded_sample():
    every, some = defects.tasks(), defects.tasks(quick=True)
    assert len(every) >= 300
    assert len(some) == defects.QUICK_SIZE
    assert set(some) <= set(every)
    assert some == defects.tasks(quick=True)
    assert len({task.formulation for task in some}) >= 6


# --- the tables -----------------------------------------------------------------------------------


def test_the_tables_are_made_from_the_files_alone(written):
    out, tables = written
    assert checker.tables(out)[1:] == tables[1:]  # the first one says of how many this is a sample
    assert checker.tables(out)[0].rows == tables[0].rows
    titles = [table.title for table in tables]
    assert titles == [
        "Which check catches which defect",
        "Where the defects were",
        "What each check is worth",
        "Equivalent mutants",
        "No alarm at the originals",
    ]
    first = tables[0]
    total = dict(zip(first.columns, first.rows[0], strict=True))
    assert (total["defect"], total["mutants"], total["equivalent"], total["caught"]) == ("all", 4, 1, "3 of 3")
    assert total["plane from dual"] >= 1  # the recovery's sign
    assert "sample of 4 of 4" not in first.intro
    for table in tables:
        assert all(len(row) == len(table.columns) for row in table.rows)
    assert "none raises an alarm" in tables[-1].intro
    assert sum(row[2] for row in tables[-1].rows if row[0] == "solver") == 3


def test_what_goes_wrong_is_shown(written, tmp_path):
    out, _ = written
    for name in ("defects.csv", "alarms.csv"):
        frame = pd.read_csv(out / name, keep_default_na=False)
        frame.loc[0, "outcome"] = "escaped" if name == "defects.csv" else "alarm"
        frame.to_csv(tmp_path / name, index=False)
    tables = {table.title: table for table in checker.tables(tmp_path)}
    assert tables["What the checker got wrong"].rows[0][0] == "escaped"
    assert "2 of the 3 that change the mathematics are caught" in tables["Which check catches which defect"].intro
    assert "1 raise an alarm" in tables["No alarm at the originals"].intro
    assert len(tables["Alarms"].rows) == 1


def report(**rest):
    table = analysis.Table("T", "", ["a"], [[1]])
    return analysis.Report("Verification", "yes", True, [], [table], ["note"], [("date", "x")], **rest)


def test_the_appendix_is_put_in_its_place_once(written, tmp_path):
    _, tables = written
    render.write(report(), [], tmp_path)
    bare = {name: (tmp_path / name).read_text() for name in ("README.md", "index.html")}
    for _ in range(2):
        render.refresh(tables, tmp_path)
        for name in bare:
            text = (tmp_path / name).read_text()
            assert text.count(render.BEGIN) == text.count(render.END) == 1
            assert text.index("Which check catches") < text.index("How to read this")
            removed = re.sub(rf"{render.BEGIN}.*?{render.END}\s*", "", text, flags=re.DOTALL)
            assert re.sub(r"\s+", " ", removed) == re.sub(r"\s+", " ", bare[name])
    whole = {name: (tmp_path / name).read_text() for name in bare}
    render.write(report(appendix=tables), [], tmp_path)
    for name, text in whole.items():
        assert re.sub(r"\s+", " ", (tmp_path / name).read_text()) == re.sub(r"\s+", " ", text)


def test_a_folder_without_a_report_gets_one_of_the_checker_alone(written, monkeypatch, tmp_path):
    _, tables = written
    monkeypatch.setattr(checker, "collect", lambda *given, **options: tables)
    page = checker.build(tmp_path, quick=True)
    assert "The checker, checked" in page.read_text()
    assert "mutants of the 1 formulation files" in (tmp_path / "README.md").read_text()
    checker.build(tmp_path, quick=True)  # and the next time its own is refreshed
    assert page.read_text().count(render.BEGIN) == 1


def test_bad_arguments_are_named(tmp_path):
    with pytest.raises(NPSVMError, match="jobs=0 must be at least 1"):
        checker.build(tmp_path, jobs=0)
    with pytest.raises(NPSVMError, match="holds no report"):
        render.refresh([], tmp_path)
    (tmp_path / "README.md").write_text("something else")
    with pytest.raises(NPSVMError, match="is not a report of this kind"):
        render.refresh([], tmp_path)
    assert math.isfinite(checker.size(quick=True))
