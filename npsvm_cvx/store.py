"""Results on disk, each saved the moment it exists and found again by what it depends on.

An SQLite file of keys and JSON values.  Knows nothing of what the values mean.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from types import TracebackType
from typing import Any

from .errors import NPSVMError


def key_of(**parts: Any) -> str:
    """Return a key that changes with any of the parts.

    >>> key_of(a=1, b="x") == key_of(b="x", a=1)
    True
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


class Store:
    """A file of results.  Several processes may use one file; killing one at any moment loses only work in flight.

    Raises
    ------
    NPSVMError
        The folder cannot be written, or the file is no store.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with Store(pathlib.Path(tempfile.mkdtemp()) / "results.sqlite") as store:
    ...     store.put("k", {"gap": 1e-9})
    ...     store.get("k")
    {'gap': 1e-09}
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=60.0)
            self._connection.execute("CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
            self._connection.commit()
        except sqlite3.DatabaseError as error:
            what = "is not a results store" if "not a database" in str(error) else f"cannot be used ({error})"
            raise NPSVMError(f"{path} {what}: remove it, or choose another folder.") from error
        except OSError as error:
            raise NPSVMError(f"{path.parent} cannot be written: {error.strerror or error}.") from error

    def get(self, key: str) -> Any:
        """Return the value, or None where there is none (or only a damaged one)."""
        try:
            row = self._connection.execute("SELECT value FROM results WHERE key = ?", (key,)).fetchone()
        except sqlite3.DatabaseError as error:
            raise NPSVMError(f"{self.path} is damaged ({error}): remove it, or choose another folder.") from error
        if row is None:
            return None
        try:
            return json.loads(row[0])
        except json.JSONDecodeError:
            return None

    def put(self, key: str, value: Any) -> None:
        """Save a value; it is on disk when this returns."""
        try:
            with self._connection:
                self._connection.execute("INSERT OR REPLACE INTO results VALUES (?, ?)", (key, json.dumps(value)))
        except sqlite3.DatabaseError as error:
            raise NPSVMError(f"{self.path} cannot be written: {error}.") from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
