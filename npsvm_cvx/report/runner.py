"""Runs the tasks of a report in worker processes and saves each result the moment it exists."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import cache
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any, Protocol, TypeVar

from joblib import Parallel, delayed, parallel_config

from .. import catalog, datasets
from ..errors import NPSVMError, unknown
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
        {
            "__main__",
            "cli",
            "display",
            "scaffold",
            "estimator",
            "plane_classifier",
            "classes",
            "path",
            "baselines",
            "store",
        }
        | {"testing", "collection", "mutation", "syntax", "defects", "location"}
        | {"selection", "plotting", "housekeeping"}
    )


@cache
def versions() -> dict[str, str]:
    """Return the versions that a result depends on, asked once: keys are made by the thousand."""
    return environment()


@cache
def data_digest(source: str) -> str:
    """Return a digest of a set that ships with the package, by its name, or of a file."""
    shipped = Path(datasets.__file__).parent / "data" / f"{source}.csv.gz"
    return file_digest(shipped if shipped.is_file() else Path(source))


@cache
def formulation_digest(name: str) -> str:
    """Return a digest of a formulation's file."""
    return file_digest(catalog.path_of(name))


def file_digest(*paths: str | Path) -> str:
    """Return a digest of files' contents."""
    return hashlib.sha256(b"".join(Path(path).read_bytes() for path in paths)).hexdigest()


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
    complete(work, run, store, in_processes(jobs, alone=alone), on_progress)
    for task in work:
        yield from store.get(task.key)


def complete(
    work: Sequence[_T],
    run: Callable[[_T], Any],
    store: Store,
    spread: Spread,
    on_progress: Progress | None = None,
    *,
    time_limit: float | None = None,
) -> bool:
    """Do the tasks that the store does not have, saving each result the moment it exists; return whether all are done.

    Parameters
    ----------
    work : sequence of tasks
    run : callable
        Does one; must be importable by name.
    store : Store
        Looked at again before each task starts: another run on it may have done that one meanwhile.
    spread : callable
        :func:`in_processes` or :func:`by_joblib`.
    on_progress : callable (done, total, name), optional
    time_limit : float, optional
        Seconds after which no further task starts.
    """
    begin = time.monotonic()
    there = store.keys()
    todo = [task for task in work if task.key not in there]
    done = len(work) - len(todo)
    if on_progress:
        on_progress(done, len(work), "")
    elsewhere = 0

    def fresh() -> Iterator[_T]:
        nonlocal elsewhere
        for task in todo:
            if time_limit is not None and time.monotonic() - begin >= time_limit:
                return
            if store.get(task.key) is None:
                yield task
            else:
                elsewhere += 1

    if todo:
        for task, value in spread(run, fresh()):
            about = getattr(task, "about", {"report": run.__module__.rpartition(".")[2], "task": task.name})
            store.put(task.key, value, about=about)
            done += 1
            if on_progress:
                on_progress(done + elsewhere, len(work), task.name)
    return done + elsewhere == len(work)


def check_jobs(jobs: int) -> None:
    """Raise NPSVMError where there would be no worker."""
    if jobs < 1:
        raise NPSVMError(f"jobs={jobs!r} must be at least 1.")


class Spread(Protocol):
    """A way to have tasks done: yields each with its result, in whatever order they end."""

    def __call__(self, run: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]: ...  # noqa: D102


def in_processes(jobs: int, *, alone: bool = False) -> Spread:
    """Return a spread over worker processes of this machine, which end when this process does."""

    def spread(run: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        # spawned, not forked: BLAS and numba threads do not survive a fork
        with ProcessPoolExecutor(
            jobs,
            mp_context=get_context("spawn"),
            initializer=_end_with_parent,
            max_tasks_per_child=1 if alone else None,
        ) as pool:
            pending: dict[Future[Any], Any] = {pool.submit(run, task): task for task in tasks}
            try:
                while pending:
                    ready, _ = wait(pending, return_when=FIRST_COMPLETED)
                    for future in ready:
                        yield pending.pop(future), future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    return spread


def by_joblib(jobs: int, backend: str = "loky", scheduler: str | None = None) -> Spread:
    """Return a spread by joblib: worker processes of this machine, or those of a Dask cluster.

    Parameters
    ----------
    jobs : int
        Tasks at a time; with "dask" the cluster decides.
    backend : str
        "loky" or "dask".
    scheduler : str, optional
        The address of a Dask scheduler; for "dask".

    Raises
    ------
    NPSVMError
        Another backend, a scheduler where there is none to have or none where one is needed, dask.distributed not
        installed, or no cluster at that address.
    """
    if backend not in ("loky", "dask"):
        raise unknown("backend", backend, ("loky", "dask"))
    if (backend == "dask") != (scheduler is not None):
        raise NPSVMError(
            "scheduler: backend='dask' needs the address of a scheduler, such as tcp://127.0.0.1:8786."
            if scheduler is None
            else f"scheduler={scheduler!r} is for backend='dask'; found backend={backend!r}."
        )
    if scheduler is not None:
        with _cluster(scheduler):
            pass  # said now, not after a folder and a store are made

    def spread(run: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        with _cluster(scheduler) if scheduler is not None else contextlib.nullcontext():
            # one job runs in this process, and a cluster's workers are its own
            do = _ending_with_parent if backend == "loky" and jobs > 1 else _with_task
            ahead = jobs if backend == "loky" else 8 * jobs  # a cluster may have more workers than this machine
            with parallel_config(backend=backend, n_jobs=jobs):
                yield from Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch=ahead)(
                    delayed(do)(run, task) for task in tasks
                )

    return spread


def _with_task(run: Callable[[Any], Any], task: Any) -> tuple[Any, Any]:
    return task, run(task)


def _ending_with_parent(run: Callable[[Any], Any], task: Any) -> tuple[Any, Any]:
    _end_when_orphaned()
    return _with_task(run, task)


@cache
def _end_when_orphaned() -> None:
    """End this process when the one that started it is killed: joblib's workers would else finish their task first."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def _cluster(scheduler: str) -> Iterator[None]:
    """Connect to a Dask cluster; joblib's backend uses the current client."""
    try:
        from distributed import Client
    except ImportError as error:
        raise NPSVMError("backend='dask' needs dask.distributed: pip install \"npsvm-cvx[distributed]\".") from error
    try:
        client = Client(scheduler, timeout="10s")
    except (OSError, TimeoutError, ValueError) as error:
        raise NPSVMError(
            f"scheduler={scheduler!r}: no Dask scheduler answers there ({type(error).__name__})."
        ) from error
    try:
        yield
    finally:
        client.close()


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
