"""The performance report on tiny sizes: everything is measured, scored and said; nothing is asked of the times."""

import math

import numpy as np
import pandas as pd
import pytest

from npsvm_cvx.report import benchmarks, performance
from npsvm_cvx.report.performance import Target, Task


def tiny(quick):
    return [
        *(Task("hinge", 400, 5, *setting, repeats=1) for setting in benchmarks.SETTINGS),
        Task("million", 600, 5, 2.0**-7, 1.0, repeats=1),
        Task("kernel", 60, 4, classes=2, repeats=1),
        Task("linear program", 120, 4, repeats=1),
        Task("grid", 768, 8, repeats=1),
        *(Task("growth", n, 5, 2.0**-7, 1.0, repeats=1) for n in (100, 200)),
        Task("growth", 200, 8, 2.0**-7, 1.0, repeats=1),
        Task("general", 100, 5, 2.0**-7, 1.0, repeats=1),
        Task("accuracy", 60, 0, dataset="iris"),
    ]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    out = tmp_path_factory.mktemp("performance")
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(performance, "tasks", tiny)
        collect = performance.runner.collect  # in one process: eleven would import everything eleven times
        patch.setattr(performance.runner, "collect", lambda *given, alone: collect(*given))
        page = performance.build(out, quick=True, on_progress=lambda *state: seen.append(state))
    return out, page, seen


def test_it_is_written_and_starts_with_its_answer(built):
    out, page, seen = built
    assert seen[-1][:2] == (11, 11)
    assert page == out / "index.html"
    text = (out / "README.md").read_text()
    assert text.splitlines()[2].startswith("Both planes of 400 x 5 samples, each with a proof")
    assert "## Targets" in text
    assert "## Accuracy on real data" in text
    assert "npsvm report performance --quick" in text
    assert "nan" not in text.lower().replace("tenant", "")
    for name in ("growth.svg", "growth.png", "accuracy.svg", "accuracy.png", "performance.csv"):
        assert (out / name).stat().st_size > 500


def test_every_contender_has_a_time_and_every_plane_a_score(built):
    frame = pd.read_csv(built[0] / "performance.csv")
    timed = frame[frame["kind"] != "accuracy"]
    assert timed["seconds"].notna().all()
    assert (timed["runs"] == 1).all()
    unscored = {"X'X", "LinearSVC", "LIBSVM"}  # no planes of this problem
    scored = timed[~timed["contender"].isin(unscored)]
    assert scored["gap"].notna().all()
    assert (scored.loc[scored["contender"].isin(["solver", "fit"]), "gap"] <= 1e-8).all()
    assert (timed.loc[timed["contender"].str.startswith("whitening"), "gap"] <= 1e-3).all()
    assert (frame.loc[frame["kind"] == "accuracy", "gap"] <= 1e-8).all()
    assert timed.loc[timed["kind"] == "million", "memory"].notna().sum() == 1


def test_what_is_in_the_store_is_not_measured_again(built, monkeypatch):
    out, page, _ = built
    before = (out / "performance.csv").read_text()
    monkeypatch.setattr(performance, "tasks", tiny)
    monkeypatch.setattr(performance, "run", lambda task: pytest.fail("measured again"))
    assert performance.build(out, quick=True) == page
    assert (out / "performance.csv").read_text() == before


def test_the_full_and_the_quick_report_measure_the_same_kinds():
    full, quick = performance.tasks(False), performance.tasks(True)
    assert {task.kind for task in full} == {task.kind for task in quick} == set(benchmarks._KINDS)
    assert len({task.key for task in full}) == len(full)
    assert all(task.repeats >= (3 if task.kind == "growth" else 5) for task in full)
    assert {(t.n, t.d) for t in full if t.kind == "hinge"} == {(100_000, 50)}
    assert len([t for t in full if t.kind == "accuracy"]) == 18


def test_a_peer_is_scored_by_its_distance_from_the_proved_optimum():
    setup = benchmarks._Linear(Task("hinge", 300, 4, 0.5, 2.0))
    best = [plane.plane for plane in setup.best]
    assert setup.score(best) <= 1e-9
    worse = [best[0], best[1] * 1.01]
    S, R = setup.matrices(1)
    values = [setup.compiled.primal_value(S, R, z) for z in (best[1], worse[1])]
    assert setup.score(worse) == pytest.approx(values[1] / values[0] - 1, rel=1e-3)


def test_a_contender_that_fails_is_shown_as_failed():
    def broken():
        raise MemoryError

    found = benchmarks.race({"good": lambda: 1, "bad": broken}, 2)
    rows = benchmarks._rows(Task("hinge", 1, 1), found, {})
    assert [(row["contender"], row["runs"], row["note"]) for row in rows] == [("good", 2, ""), ("bad", 0, "failed")]
    assert rows[1]["seconds"] is None


def test_targets_say_by_how_much_they_are_missed():
    met, missed = Target("x", 7.5, 8.0, False), Target("y", 2.0, 3.0, True)
    assert (met.met, missed.met) == (True, False)
    assert met.row == ["x", "at most 8", "7.5", "met"]
    assert missed.row == ["y", "at least 3", "2", "missed by 33%"]
    assert Target("w", 5e-7, 1e-9, False).row[-1] == "missed 500-fold"
    assert Target("z", math.nan, 3.0, True).row[-1] == "not measured"
    assert performance._setting(2.0**-7, 100.0) == "(2^-7, 100)"


def test_the_seconds_of_a_race_leave_out_the_first_round(monkeypatch):
    clock = iter(np.cumsum([0.0, 9.0, 0.0, 1.0, 0.0, 1.0]))
    monkeypatch.setattr(benchmarks.time, "perf_counter", lambda: next(clock))
    assert benchmarks.race({"one": lambda: None}, 0)["one"][0] == []
    assert benchmarks.race({"one": lambda: 1}, 1)["one"][0] == [1.0]
