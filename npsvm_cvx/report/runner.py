"""Runs the tasks of a report in worker processes and saves each result the moment it exists."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import cache
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any, Protocol, TypeVar

from .. import catalog, datasets
from ..store import Store
from ..verification import environment

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
def verifier_digest() -> str:
    """Return a digest of the modules that what a verification finds depends on."""
    return package_digest(
        {"cli", "display", "scaffold", "estimator", "plane_classifier", "classes", "path", "baselines", "store"}
        | {"testing", "mutation", "syntax", "defects", "location"}
    )


@cache
def versions() -> dict[str, str]:
    """Return the versions that a result depends on, asked once: keys are made by the thousand."""
    return environment()


@cache
def data_digest(name: str) -> str:
    """Return a digest of a data set's file."""
    return file_digest(Path(datasets.__file__).parent / "data" / f"{name}.csv.gz")


def formulation_digest(name: str) -> str:
    """Return a digest of a formulation's file."""
    return file_digest(catalog._folder() / f"{name}.py")


@cache
def file_digest(*paths: str | Path) -> str:
    """Return a digest of files' contents."""
    return hashlib.sha256(b"".join(Path(path).read_bytes() for path in paths)).hexdigest()


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


def part_of(on_progress: Progress | None, before: int, total: int) -> Progress | None:
    """Return the progress of some of the tasks as progress of all: ``before`` are done, there are ``total``."""
    if on_progress is None:
        return None
    return lambda done, _, name: on_progress(before + done, total, name)


def _end_with_parent() -> None:
    """End this worker when the process that started it is killed; it would else finish what nobody waits for."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        wait_for([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
