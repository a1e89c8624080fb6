"""Runs the tasks of a report in worker processes and saves each result the moment it exists."""

from __future__ import annotations

import hashlib
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import cache
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any, Protocol, TypeVar

from .. import datasets
from ..store import Store

Progress = Callable[[int, int, str], None]


class Task(Protocol):
    """Something to do: its name, for the progress line, and the key of its result, by all that it depends on."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def key(self) -> str: ...  # noqa: D102


_T = TypeVar("_T", bound=Task)


def package_digest(without: Set[str], *also: str) -> str:
    """Return a digest of the package's modules, the reports aside, and of the files named ``also``."""
    folder = Path(__file__).parent.parent
    names = sorted(path for path in folder.glob("*.py") if path.stem not in without)
    return hashlib.sha256(b"".join(path.read_bytes() for path in [*names, *map(Path, also)])).hexdigest()


@cache
def data_digest(source: str) -> str:
    """Return a digest of a set that ships with the package, by its name, or of a file."""
    shipped = Path(datasets.__file__).parent / "data" / f"{source}.csv.gz"
    return file_digest(shipped if shipped.is_file() else Path(source))


def file_digest(path: Path) -> str:
    """Return a digest of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as the store keeps it: JSON has no NaN or infinity that other readers accept.

    None is NaN, and a text stands for infinity.
    """
    return {name: _plain(value) if isinstance(value, float) else value for name, value in row.items()}


def _plain(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else "inf"


def collect(
    work: Sequence[_T],
    run: Callable[[_T], list[dict[str, Any]]],
    store: Store,
    jobs: int,
    on_progress: Progress | None = None,
    *,
    alone: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of all tasks in their order, doing those that the store does not have.

    Parameters
    ----------
    work : sequence of tasks
    run : callable
        Does one; must be importable by name.
    store : Store
    jobs : int
        Worker processes.
    on_progress : callable (done, total, name), optional
    alone : bool
        A new process for every task, so that none inherits memory or warm caches.
    """
    found: dict[str, Any] = {}
    todo: list[_T] = []
    keys = [task.key for task in work]
    for task, key in zip(work, keys, strict=True):
        value = store.get(key)
        if value is None:
            todo.append(task)
        else:
            found[key] = value
    done = len(work) - len(todo)
    if on_progress:
        on_progress(done, len(work), "")
    if todo:
        # spawned, not forked: BLAS and numba threads do not survive a fork
        with ProcessPoolExecutor(
            min(jobs, len(todo)),
            mp_context=get_context("spawn"),
            initializer=_end_with_parent,
            max_tasks_per_child=1 if alone else None,
        ) as pool:
            pending: dict[Future[list[dict[str, Any]]], _T] = {pool.submit(run, task): task for task in todo}
            try:
                while pending:
                    ready, _ = wait(pending, return_when=FIRST_COMPLETED)
                    for future in ready:
                        task = pending.pop(future)
                        found[task.key] = future.result()
                        store.put(task.key, found[task.key])
                        done += 1
                        if on_progress:
                            on_progress(done, len(work), task.name)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    for key in keys:
        yield from found[key]


def _end_with_parent() -> None:
    """End this worker when the process that started it is killed; it would else finish what nobody waits for."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        wait_for([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
