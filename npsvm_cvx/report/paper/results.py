"""Runs the report's work and keeps what it comes to: in the store, and in the tidy table from which a run continues.

Knows units, slices and the store.  Must not know of tables or figures.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from numpy.linalg import LinAlgError

from ...errors import NPSVMError
from ...store import Store
from .. import runner
from ..runner import Progress, Spread
from . import sound
from .folds import reduce, run
from .protocol import Slice, Unit

_KEY = 24  # characters of a key in the tidy table: enough to tell any two apart


def gather(
    slices: Sequence[Slice],
    store: Store,
    spread: Spread,
    on_progress: Progress | None = None,
    time_limit: float | None = None,
) -> None:
    """Do what the store does not have, and reduce every slice whose folds are all there."""
    keys = {slice_: slice_.key for slice_ in slices}
    drop_broken(slices, store)
    there = store.keys()
    units = [unit for slice_ in slices if keys[slice_] not in there for unit in slice_.units()]
    before = sum(slice_.load().folds for slice_ in slices if keys[slice_] in there)
    counted = runner.part_of(on_progress, before, before + len(units))
    runner.complete(units, attempt, store, spread, counted, time_limit=time_limit)
    summarise(slices, store)


def attempt(unit: Unit) -> dict[str, Any]:
    """Do one fold; what the method cannot do is its result, and is shown as failed."""
    try:
        return run(unit)
    except (ValueError, ArithmeticError, LinAlgError) as error:
        return {"failed": f"{type(error).__name__}: {' '.join(str(error).split())}"}


def drop_broken(slices: Sequence[Slice], store: Store) -> int:
    """Remove results that no run can have given, so that they are done again; return how many there were."""
    there = store.keys()
    broken = set()
    for slice_ in slices:
        if slice_.key in there:
            if sound.reduced(slice_, store.get(slice_.key)):
                continue  # its folds are not looked at again
            broken.add(slice_.key)
        broken |= {u.key for u in slice_.units() if u.key in there and not sound.unit(u, store.get(u.key))}
    return store.drop(broken) if broken else 0


def summarise(slices: Sequence[Slice], store: Store) -> None:
    """Reduce and save every slice whose folds are all there."""
    there = store.keys()
    for slice_ in slices:
        key = slice_.key
        if key in there:
            continue
        units: list[Unit] = slice_.units()
        if all(unit.key in there for unit in units):
            found = [store.get(unit.key) for unit in units]
            failed = next((each for each in found if "failed" in each), None)
            store.put(key, failed or reduce(slice_, found), about=slice_.about)


def frame(slices: Sequence[Slice], store: Store) -> pd.DataFrame:
    """Return the tidy table: one row a slice that was run, in the order of the work."""
    rows = []
    for slice_ in slices:
        key = slice_.key
        found = store.get(key)
        if found is not None:
            rows.append(_row(slice_, key, found))
    return pd.DataFrame(rows, columns=list(_COLUMNS))


_COLUMNS = (
    *("dataset", "kernel", "gamma", "method", "protocol", "setting", "sizes", "correct", "chosen", "curve"),
    *("late", "trained", "seconds", "failed", "key"),
)


def _row(slice_: Slice, key: str, found: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(_COLUMNS, "")
    row |= {
        "dataset": slice_.dataset,
        "kernel": slice_.kernel,
        "gamma": None if slice_.gamma is None else 2.0**slice_.gamma,
        "method": slice_.method,
        "protocol": slice_.protocol.name,
        "failed": found.get("failed", ""),
        "key": key[:_KEY],
    }
    if "failed" in found:
        return row
    return row | {
        "setting": " ".join(f"{name}={value!r}" for name, value in found["setting"].items()),
        "sizes": _joined(found["sizes"]),
        "correct": _joined(found["correct"]),
        "chosen": _joined([f"{score!r}:{count}" for score, count in found["chosen"]]),
        "curve": _joined([repr(value) for value in found["curve"]]),
        "late": found["late"],
        "trained": found["trained"],
        "seconds": found["seconds"],
    }


_TEXT = ("setting", "sizes", "correct", "chosen", "curve", "failed", "key")


def _joined(values: Sequence[Any]) -> str:
    return " ".join(str(value) for value in values)


def parsed(row: dict[str, Any]) -> dict[str, Any]:
    """Return the reduced result that a row of the tidy table was written from."""
    if row["failed"]:
        return {"failed": str(row["failed"])}
    setting = dict(part.split("=") for part in str(row["setting"]).split())
    chosen = [part.split(":") for part in str(row["chosen"]).split()]
    return {
        "setting": {name: float(value) for name, value in setting.items()},
        "sizes": [int(value) for value in str(row["sizes"]).split()],
        "correct": [int(value) for value in str(row["correct"]).split()],
        "chosen": [[float(score), int(count)] for score, count in chosen],
        "curve": [float(value) for value in str(row["curve"]).split()],
        "late": int(row["late"]),
        "trained": int(row["trained"]),
        "seconds": float(row["seconds"]),
    }


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write the tidy table."""
    fresh = path.with_suffix(".csv.part")  # whole or not at all: where there is no store, it is the only copy
    try:
        table.to_csv(fresh, index=False, lineterminator="\n")
        fresh.replace(path)
    except OSError as error:
        raise NPSVMError(f"{path} cannot be written: {error.strerror or error}.") from error


def read_csv(path: Path) -> pd.DataFrame:
    """Return a tidy table as it was written."""
    try:
        table = pd.read_csv(path, dtype=dict.fromkeys(_TEXT, str))
    except (OSError, ValueError) as error:
        raise NPSVMError(f"{path} cannot be read: {error}.") from error
    missing = set(_COLUMNS) - set(table.columns)
    if missing:
        raise NPSVMError(f"{path} is no table of this report: it has no column {sorted(missing)[0]!r}.")
    return table.fillna(dict.fromkeys(_TEXT, ""))


def set_aside(path: Path, slices: Sequence[Slice], store: Store) -> None:
    """Keep a tidy table that has results which a new one, about to take its place, has not: under another name.

    Warns
    -----
    UserWarning
        It did so: such results are of other code, data or versions, or of another protocol.
    """
    there = store.keys()
    kept = {slice_.key[:_KEY] for slice_ in slices if slice_.key in there}
    try:
        lost = bool((~read_csv(path)["key"].isin(kept)).any())
    except NPSVMError:  # no table of this version
        lost = True
    if lost:
        names = (path.with_name(f"{path.stem}.previous{n or ''}.csv") for n in itertools.count(1))
        name = next(name for name in names if not name.exists())
        path.replace(name)
        warnings.warn(
            f"{path} holds results that this run does not use, of another protocol, code or version: kept as "
            f"{name.name}, from which a run they are of continues.",
            stacklevel=2,
        )


def tables_in(folder: Path) -> list[Path]:
    """Return the tidy tables of a folder, those set aside last."""
    own = folder / "paper.csv"
    return [path for path in (own, *sorted(folder.glob("paper.previous*.csv"))) if path.is_file()]


def take_over(path: Path, slices: Sequence[Slice], store: Store) -> int:
    """Put into the store what a tidy table of an earlier run has, where nothing it depends on has changed."""
    wanted = {slice_.key[:_KEY]: slice_ for slice_ in slices}
    there = store.keys()
    taken = 0
    for row in read_csv(path).to_dict("records"):
        slice_ = wanted.get(row["key"])
        if slice_ is None or slice_.key in there:
            continue
        with contextlib.suppress(ValueError, KeyError, TypeError):  # a damaged row is done again
            found = json.loads(json.dumps(parsed(row)))
            if sound.reduced(slice_, found):
                store.put(slice_.key, found, about=slice_.about)
                taken += 1
    return taken
