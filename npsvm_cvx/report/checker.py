"""The checker, checked: what planted mistakes it catches and places, and that it raises no alarm at the originals.

An appendix of the verification report, made from two tidy tables of its own, ``defects.csv`` and ``alarms.csv``; it can
be run and put into a written report alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from .. import catalog
from ..errors import NPSVMError
from ..location import names_the_place
from ..store import Store
from . import alarms, defects, render, runner
from .analysis import Cell, Report, Table, setup
from .runner import Progress

COLUMNS = [
    "formulation", "operator", "place", "line", "before", "after", "outcome", "first", "checks", "located", "diagnosis",
]  # fmt: skip


def build(out: Path, *, quick: bool = False, jobs: int = 2, on_progress: Progress | None = None) -> Path:
    """Run what is not in the store; put the tables into the report that lies in ``out``, or write one of their own.

    Parameters
    ----------
    out : Path
    quick : bool
        A seeded sample of the mutants and the beginning of the covering sample.
    jobs : int
        Worker processes.
    on_progress : callable (done, total, name), optional

    Raises
    ------
    NPSVMError
        The folder cannot be written, or jobs is not positive.
    """
    runner.check_jobs(jobs)
    with Store(out / "results.sqlite") as store:
        tables = collect(store, out, quick=quick, jobs=jobs, on_progress=on_progress)
    if (out / "README.md").exists() and (out / "index.html").exists():
        return render.refresh(tables, out)
    command = "npsvm report checker" + (" --quick" if quick else "")
    title, answer = "The checker, checked", tables[0].intro
    return render.write(Report(title, answer, True, [], [], NOTES, setup(command), tables), [], out)


def size(quick: bool) -> int:
    """Return how many tasks there are."""
    return len(defects.tasks(quick)) + len(alarms.tasks(quick))


def collect(store: Store, out: Path, *, quick: bool, jobs: int, on_progress: Progress | None = None) -> list[Table]:
    """Do the tasks that the store does not have, write the two CSV files, and return the tables made from them."""
    mutated, sample = defects.tasks(quick), alarms.tasks(quick)
    total = len(mutated) + len(sample)
    first = runner.part_of(on_progress, 0, total)
    found = list(runner.collect(mutated, defects.run, store, jobs, first))
    for task, row in zip(mutated, found, strict=True):
        original = catalog.load(task.formulation)()
        row["located"] = row["outcome"] == "caught" and names_the_place(task.mutant, row["diagnosis"], original)
    second = runner.part_of(on_progress, len(mutated), total)
    quiet = list(runner.collect(sample, alarms.run, store, jobs, second))
    try:
        pd.DataFrame(found)[COLUMNS].to_csv(out / "defects.csv", index=False, lineterminator="\n")
        pd.DataFrame(quiet).drop(columns="seconds").to_csv(out / "alarms.csv", index=False, lineterminator="\n")
    except OSError as error:
        raise NPSVMError(f"{out} cannot be written: {error.strerror or error}.") from error
    return tables(out)


def tables(out: Path) -> list[Table]:
    """Return the appendix's tables from the CSV files in ``out`` alone."""
    found = pd.read_csv(out / "defects.csv", keep_default_na=False)
    quiet = pd.read_csv(out / "alarms.csv", keep_default_na=False)
    made = [_operators(found), _places(found), _checks(found), _equivalent(found), _misses(found), *_quiet(quiet)]
    return [table for table in made if table is not None]


# --- mutants --------------------------------------------------------------------------------------


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "--"


def _operators(found: pd.DataFrame) -> Table:
    changing = found[found["outcome"] != "equivalent"]
    caught = changing[changing["outcome"] == "caught"]
    names = list(dict.fromkeys(_checks_of(caught).explode().dropna()))
    order = sorted(names, key=lambda name: -sum(name in row for row in _checks_of(caught)))
    rows: list[list[Cell]] = []
    groups = sorted(found.groupby("operator"), key=lambda pair: -len(pair[1]))
    for operator, group in [("all", found), *groups]:
        real = group[group["outcome"] != "equivalent"]
        hit = real[real["outcome"] == "caught"]
        by = _checks_of(hit)
        rows.append(
            [
                str(operator),
                len(group),
                len(group) - len(real),
                f"{len(hit)} of {len(real)}",
                _share(int(hit["located"].sum()), len(hit)),
                *(sum(name in row for row in by) for name in order),
            ]
        )
    located = _share(int(caught["located"].sum()), len(caught))
    files = found["formulation"].nunique()
    every = len(defects.tasks())
    made = (
        f"{len(found):,} mutants" if len(found) >= every else f"A seeded sample of {len(found):,} of {every:,} mutants"
    )
    verdict = (
        f"every one of the {len(changing):,} that change the mathematics is caught"
        if len(caught) == len(changing)
        else f"{len(caught):,} of the {len(changing):,} that change the mathematics are caught"
    )
    intro = (
        f"{made} of the {files} formulation files, each the author's file with one thing wrong, verified as a user's "
        f"file on the seeded instance: {verdict}, and the first line of the diagnosis names the right place for "
        f"{located} of them; {len(found) - len(changing):,} are equivalent. A check's column counts the mutants for "
        "which it fails; declaration is a file that cannot be used, refused in a sentence."
    )
    columns = ["defect", "mutants", "equivalent", "caught", "located", *order]
    return Table("Which check catches which defect", intro, columns, rows)


def _checks_of(frame: pd.DataFrame) -> pd.Series:
    return frame["checks"].map(lambda text: text.split("; ") if text else [])


def _places(found: pd.DataFrame) -> Table:
    rows: list[list[Cell]] = []
    kinds = found["place"].str.replace(r" \[.*", " [...]", regex=True)
    for place, group in sorted(found.groupby(kinds), key=lambda pair: -len(pair[1])):
        real = group[group["outcome"] != "equivalent"]
        hit = real[real["outcome"] == "caught"]
        named = int(hit["located"].sum())
        rows.append(
            [str(place), len(group), len(group) - len(real), f"{len(hit)} of {len(real)}", _share(named, len(hit))]
        )
    intro = (
        "A duality check sees a primal and a dual that disagree, never which is wrong: a place counts as named if the "
        "first line of the diagnosis names it, a variable of the term changed, or the term's mirror image in the other "
        "problem. The rule is a function of the text, npsvm_cvx.location.names_the_place; its docstring is its table."
    )
    return Table("Where the defects were", intro, ["place", "mutants", "equivalent", "caught", "located"], rows)


def _checks(found: pd.DataFrame) -> Table:
    caught = found[found["outcome"] == "caught"]
    by = _checks_of(caught)
    names = sorted(set(by.explode().dropna()), key=lambda name: -sum(name in row for row in by))
    rows: list[list[Cell]] = []
    for name in names:
        spoke = caught[caught["first"] == name]
        rows.append(
            [
                name,
                sum(name in row for row in by),
                len(spoke),
                _share(int(spoke["located"].sum()), len(spoke)),
                sum(row == [name] for row in by),
            ]
        )
    return Table(
        "What each check is worth",
        "How many mutants fail it, for how many the diagnosis speaks of it first, how often that names the place, and "
        "how many no other check would have caught.",
        ["check", "catches", "speaks first", "then located", "alone"],
        rows,
    )


def _equivalent(found: pd.DataFrame) -> Table | None:
    same = found[found["outcome"] == "equivalent"]
    if same.empty:
        return None
    rows: list[list[Cell]] = []
    groups = same.groupby(["operator", "place", "diagnosis"], sort=True)
    for (operator, place, reason), group in groups:
        edits = "; ".join(dict.fromkeys(_edit(row) for _, row in group.iterrows()))
        rows.append(
            [str(operator), str(place), len(group), ", ".join(sorted(set(group["formulation"]))), edits, reason]
        )
    return Table(
        "Equivalent mutants",
        "Other words for the same mathematics. Not by assertion: the file's functions were compared with the "
        "original's, and no check was asked.",
        ["defect", "place", "count", "files", "edits", "reason"],
        rows,
    )


def _edit(row: pd.Series) -> str:
    before, after = str(row["before"]), str(row["after"])
    start = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0)
    if len(before) <= 60:
        return f"{before} → {after}"
    return f"…{before[max(start - 12, 0) : start + 24]}… → …{after[max(start - 12, 0) : start + 24]}…"


def _misses(found: pd.DataFrame) -> Table | None:
    wrong = found[~found["outcome"].isin(["caught", "equivalent"])]
    if wrong.empty:
        return None
    rows: list[list[Cell]] = [
        [r["outcome"], r["formulation"], r["operator"], r["place"], _edit(r), r["diagnosis"]]
        for _, r in wrong.iterrows()
    ]
    return Table(
        "What the checker got wrong",
        "Escaped: it passes and is another problem. False alarm: it fails and is the same. Crashed: no sentence.",
        ["outcome", "file", "defect", "place", "edits", "first line"],
        rows,
    )


# --- the originals --------------------------------------------------------------------------------


def _quiet(sample: pd.DataFrame) -> list[Table]:
    raised = sample[sample["outcome"] == "alarm"]
    verdict = "none raises an alarm" if raised.empty else f"{len(raised)} raise an alarm"
    done = [
        alarms.Task(**{**{name: row[name] for name in alarms.COLUMNS}, "seed": int(row["seed"])})
        for _, row in sample.iterrows()
    ]
    undecided = int((sample["outcome"] == "undecided").sum())
    intro = (
        f"{len(sample):,} verifications of the originals, {verdict}: a seeded sample that covers "
        f"{alarms.coverage(done, 2):.1%} of the pairs and {alarms.coverage(done, 3):.0%} of the triples of levels of "
        f"formulation, data set, kernel ({', '.join(alarms.KERNELS)}), grid point (25, the corners 2^-8 and 2^8 of "
        f"both hyperparameters among them), other hyperparameters ({', '.join(alarms.OWN)}), solver, scheme and seed; "
        f"{int(sample['passed'].sum()):,} checks passed and {int(sample['failed'].sum())} failed. Each on at most "
        f"{alarms.MAX_ROWS} rows and {alarms.MAX_PLANES} planes, with one general solver alone; {undecided} are "
        "undecided, since that solver solved nothing accurately enough to decide by."
    )
    columns = ["factor", "level", "verifications", "verified", "undecided", "alarms", "checks passed", "fell short"]
    rows: list[list[Cell]] = []
    for factor in ("formulation", "solver", "kernel", "scheme", "own"):
        rows += [[factor, str(level), *_tally(group)] for level, group in sample.groupby(factor)]
    corner = sample["ridge"].isin([2.0**-8, 2.0**8]) & sample["C2"].isin([2.0**-8, 2.0**8])
    rows += [["grid", "corners", *_tally(sample[corner])], ["grid", "elsewhere", *_tally(sample[~corner])]]
    found = [Table("No alarm at the originals", intro, columns, rows)]
    if len(raised):
        where = ["formulation", "dataset", "kernel", "ridge", "C2", "own", "solver", "scheme", "seed", "meaning"]
        listed: list[Sequence[Cell]] = [[_plain(row[name]) for name in where] for _, row in raised.iterrows()]
        found.append(Table("Alarms", "", where, listed))
    return found


def _tally(group: pd.DataFrame) -> list[Cell]:
    outcome = group["outcome"]
    counts: list[Cell] = [int((outcome == word).sum()) for word in ("verified", "undecided", "alarm")]
    return [len(group), *counts, int(group["passed"].sum()), int(group["fell short"].sum())]


def _plain(value: object) -> Cell:
    return value if isinstance(value, str) else f"{value:g}"


NOTES = [
    "A mutant is made from the syntax tree of a formulation's file; none names a variant.",
    "Whether it changes the mathematics is decided by comparing it with its original, function by function, at four "
    "settings of the hyperparameters, without any check.",
]
"""How to read the tables, where they are a report of their own."""
