"""What people do with a results store: see what is in it, drop what no report would use, take it elsewhere.

Knows stores and which keys the reports ask for.  Must not know what the values mean.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from .errors import NPSVMError
from .store import FILE, Entry, Store

_FINE = ("dataset", "gamma", "fold", "task")  # what an overview does not tell apart
FORMATS = (".csv", ".json")


@dataclass(frozen=True)
class Group:
    """Results of one kind: what they are of, how many there are, their size in bytes, and when the last was saved."""

    what: str
    results: int
    size: int
    last: str


def store_path(given: Path) -> Path:
    """Return the store's file for a report's folder, or for the file itself."""
    return given / FILE if given.is_dir() else given


def overview(store: Store) -> list[Group]:
    """Return what a store holds, by kind.

    Examples
    --------
    >>> import tempfile
    >>> with Store(Path(tempfile.mkdtemp()) / FILE) as store:
    ...     store.put("a", 1, about={"report": "paper", "dataset": "iris"})
    ...     store.put("b", 2, about={"report": "paper", "dataset": "wine"})
    ...     [(group.what, group.results) for group in overview(store)]
    [('paper', 2)]
    """
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in store.entries():
        parts = [str(value) for name, value in entry.about.items() if name not in _FINE and value is not None]
        found[" · ".join(parts) or "unknown"].append(entry)
    return [
        Group(what, len(entries), sum(len(e.text) for e in entries), max(e.saved for e in entries))
        for what, entries in found.items()
    ]


def unused(store: Store) -> set[str]:
    """Return the keys of results that no report of this version would look for.

    Those are results of other code, data or numerical packages than there are now, and the folds of what is summed
    up already.  Results of reports on somebody's own files, and of which the store does not say what they are, are
    left alone.
    """
    from .report import paper, performance, verification

    there = store.keys()
    wanted: dict[str, set[str]] = {"verification": set(), "performance": set(), "paper": set()}
    for quick in (True, False):
        wanted["verification"] |= {task.key for task in verification.tasks(quick)}
        wanted["performance"] |= {task.key for task in performance.tasks(quick)}
        wanted["paper"] |= paper.keys(quick, there)
    reports = [(entry.key, entry.about.get("report")) for entry in store.entries()]
    return {key for key, report in reports if report in wanted and key not in wanted[report]}


def export(store: Store, path: Path) -> int:
    """Write all results as CSV or JSON, by the file's ending; return how many there were.

    Raises
    ------
    NPSVMError
        Another ending, or a file that cannot be written.
    """
    if path.suffix.lower() not in FORMATS:
        raise NPSVMError(f"out={str(path)!r} must end in {' or '.join(FORMATS)}, by which its form is chosen.")
    entries = list(store.entries())
    names = sorted({name for entry in entries for name in entry.about})
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            if path.suffix.lower() == ".json":
                rows = [
                    {"key": e.key, "saved": e.saved, "about": e.about, "value": json.loads(e.text)} for e in entries
                ]
                json.dump(rows, file, indent=1, sort_keys=True)
            else:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(["key", "saved", *names, "value"])
                writer.writerows([e.key, e.saved, *(e.about.get(name) for name in names), e.text] for e in entries)
    except OSError as error:
        raise NPSVMError(f"out={str(path)!r} cannot be written: {error.strerror or error}.") from error
    return len(entries)
