"""Results on disk, each saved the moment it exists and found again by what it depends on.

An SQLite file of keys and JSON values.  Knows nothing of what the values mean.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from .errors import NPSVMError

FILE = "results.sqlite"
"""The name of the store in a report's folder."""


_ADDED = ("about", "saved")  # columns that the first stores had not
_WAY_OUT = ": remove it, or choose another folder"


def key_of(**parts: Any) -> str:
    """Return a key that changes with any of the parts.

    >>> key_of(a=1, b="x") == key_of(b="x", a=1)
    True
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True)
class Entry:
    """One result: its key, what it is of, as a JSON object's items, when it was saved (UTC), and its value's text."""

    key: str
    about: dict[str, Any]
    saved: str
    text: str


class Store:
    """A file of results.  Several processes may use one file; killing one at any moment loses only work in flight.

    Parameters
    ----------
    path : Path
    create : bool, default=True
        Make the file, and its folder, if it is not there, or if it is an empty one.

    Raises
    ------
    NPSVMError
        The folder cannot be written, or the file is no store (it is then left as it was), or there is none and it
        must not be made.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with Store(pathlib.Path(tempfile.mkdtemp()) / "results.sqlite") as store:
    ...     store.put("k", {"gap": 1e-9}, about={"report": "paper"})
    ...     store.get("k"), next(store.entries()).about
    ({'gap': 1e-09}, {'report': 'paper'})
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        if not create and not path.is_file():
            raise NPSVMError(f"{path}: there is no such results store.")
        self._lock = threading.Lock()  # one connection, whichever thread asks
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=60.0, check_same_thread=False)
            self._refuse_foreign(create)
            self._connection.execute("CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
            self._add_columns()
            self._connection.commit()
        except NPSVMError:
            self._connection.close()
            raise
        except sqlite3.DatabaseError as error:
            what = "is not a results store" if "not a database" in str(error) else f"cannot be used: {error}"
            way_out = _WAY_OUT if create and what.startswith("is not") else ""  # no advice to remove what is looked at
            raise NPSVMError(f"{path} {what}{way_out}.") from error
        except OSError as error:
            raise NPSVMError(f"{path.parent} cannot be written: {error.strerror or error}.") from error

    def _refuse_foreign(self, create: bool) -> None:
        """Refuse a database of something else before anything is written to it."""
        tables = {row[0] for row in self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        ours = tables == {"results"} and {"key", "value"} <= self._columns() <= {"key", "value", *_ADDED}
        if not ours and (tables or not create):
            holds = "its tables are another program's" if tables else "it is empty"
            raise NPSVMError(f"{self.path} is not a results store ({holds}){_WAY_OUT if create else ''}.")

    def _columns(self) -> set[str]:
        return {row[1] for row in self._connection.execute("PRAGMA table_info(results)")}

    def _add_columns(self) -> None:
        there = self._columns()
        for name in _ADDED:
            if name in there:
                continue
            try:
                self._connection.execute(f"ALTER TABLE results ADD COLUMN {name} TEXT NOT NULL DEFAULT ''")
            except sqlite3.OperationalError as error:  # another process has just added it
                if "duplicate" not in str(error):
                    raise

    def get(self, key: str) -> Any:
        """Return the value, or None where there is none (or only a damaged one)."""
        with self._lock, self._damage_named():
            row = self._connection.execute("SELECT value FROM results WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        try:
            return json.loads(row[0])
        except json.JSONDecodeError:
            return None

    def keys(self) -> set[str]:
        """Return the keys of all results but damaged ones."""
        with self._lock, self._damage_named():
            return {row[0] for row in self._connection.execute("SELECT key FROM results WHERE json_valid(value)")}

    def put(self, key: str, value: Any, about: Mapping[str, Any] | None = None) -> None:
        """Save a value; it is on disk when this returns.

        Parameters
        ----------
        key : str
        value : anything JSON has
        about : mapping, optional
            What it is of, for people.
        """
        row = (key, json.dumps(value), json.dumps(about or {}), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        with self._lock:
            try:
                with self._connection:
                    self._connection.execute(
                        "INSERT OR REPLACE INTO results (key, value, about, saved) VALUES (?, ?, ?, ?)", row
                    )
            except sqlite3.DatabaseError as error:
                raise NPSVMError(f"{self.path} cannot be written: {error}.") from error

    def entries(self) -> Iterator[Entry]:
        """Yield all results but damaged ones, by what they are of and then by key."""
        with self._lock, self._damage_named():
            rows = self._connection.execute(
                "SELECT key, about, saved, value FROM results WHERE json_valid(value) ORDER BY about, key"
            ).fetchall()
        for key, about, saved, text in rows:
            try:
                found = json.loads(about or "{}")
            except (json.JSONDecodeError, TypeError):
                found = {}
            yield Entry(key, found if isinstance(found, dict) else {}, saved, text)

    def damaged(self) -> int:
        """Return how many results are damaged: they count as missing, and go when others are dropped."""
        with self._lock, self._damage_named():
            found = self._connection.execute("SELECT count(*) FROM results WHERE NOT json_valid(value)").fetchone()
        return int(found[0])

    def drop(self, keys: Set[str]) -> int:
        """Remove results, and damaged ones, and give their room back; return how many of ``keys`` there were."""
        before = len(self.keys())
        with self._lock:
            try:
                with self._connection:
                    self._connection.executemany("DELETE FROM results WHERE key = ?", [(key,) for key in keys])
                    self._connection.execute("DELETE FROM results WHERE NOT json_valid(value)")
                self._connection.execute("VACUUM")
            except sqlite3.DatabaseError as error:
                raise NPSVMError(f"{self.path} cannot be written: {error}.") from error
        return before - len(self.keys())

    @contextlib.contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise NPSVMError(f"{self.path} is damaged ({error}){_WAY_OUT}.") from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
