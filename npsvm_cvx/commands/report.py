"""``npsvm report``: checks what is asked for, has it built, and says where it is."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from ..display import Bar, emit, verbatim
from ..errors import NPSVMError, unknown

REPORTS = {
    "verification": "npsvm_cvx.report.verification",
    "losses": "npsvm_cvx.report.losses",
    "checker": "npsvm_cvx.report.checker",
    "performance": "npsvm_cvx.report.performance",
    "paper": "npsvm_cvx.report.paper",
}
"""The kinds of report and the module that builds each."""


def report(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"One of: {', '.join(REPORTS)}.")],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE", help="With losses: the loss or formulation files to compare.", show_default=False
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A subset that takes a minute or two.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder to write to; report-KIND otherwise.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Worker processes; one a processor otherwise.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATA", help="With losses: a set's name or a table whose last column is the label; repeatable."
        ),
    ] = None,
    hours: Annotated[
        float | None,
        typer.Option(metavar="H", min=0.0, help="Begin nothing after so long; the rest is shown as not run (paper)."),
    ] = None,
    backend: Annotated[
        str | None, typer.Option(metavar="NAME", help="loky, or dask for the machines of a cluster (paper).")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of the Dask cluster, such as tcp://host:8786.")
    ] = None,
) -> None:
    """Build a report to read: HTML, Markdown, CSV, figures.

    Results are saved as they come: after an interruption the same command continues.
    """
    if kind not in REPORTS:
        raise unknown("kind", kind, REPORTS)
    module = importlib.import_module(REPORTS[kind])
    asked: dict[str, Any] = {}
    if kind == "losses":
        asked = {"files": files or [], "data": [name for text in data or [] for name in text.split(",")]}
    elif files or data:
        what = f"FILE={files[0]!r}" if files else "--data"
        raise NPSVMError(f"{what}: report {kind} takes no files or data; report losses does.")
    folder = (out or Path(f"report-{kind}")).expanduser()
    given = {"backend": backend, "scheduler": scheduler, "time_limit": None if hours is None else 3600 * hours}
    own = {name: value for name, value in given.items() if value is not None}
    build = module.build
    for name in own:
        if name not in inspect.signature(build).parameters:
            option = "hours" if name == "time_limit" else name
            raise NPSVMError(f"--{option} is for reports that have it, such as paper; found kind={kind!r}.")
    if hasattr(module, "check"):
        module.check(**asked, **own)
    _check_writable(folder)
    with Bar(every=5.0) as progress:
        page = Path(build(folder, quick=quick, jobs=jobs or _processors(), on_progress=progress, **asked, **own))
    answer = _answer(folder)
    if answer:
        emit(Text(answer))
    verbatim(f"read it: {page}")
    beside = [path.name for path in sorted(folder.iterdir()) if path.is_file() and path != page]
    emit(Text(f"beside it in {folder}: {', '.join(beside) or 'nothing'}"))


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_writable(folder: Path) -> None:
    import tempfile

    if (folder / "README.md").exists() and not (folder / "index.html").exists():
        raise NPSVMError(f"out={str(folder)!r} holds a README.md that no report wrote: choose another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise NPSVMError(f"out={str(folder)!r} cannot be written: {error.strerror or error}.") from error


def _answer(folder: Path) -> str:
    """The first paragraph under the title of a report's Markdown, which is its answer."""
    with contextlib.suppress(OSError):
        for paragraph in (folder / "README.md").read_text(encoding="utf-8").split("\n\n"):
            if paragraph.strip() and not paragraph.lstrip().startswith("#"):
                return " ".join(paragraph.split())
    return ""
