"""How the command line looks: tables, progress, and a verification in a terminal or a pipe.

Renders; decides nothing.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from .evidence import Row
    from .verification import Verification

_WIDE = 90  # columns from which a table has room for sentences beside its figures
STYLE = {"pass": "green", "fail": "bold red", "solver": "yellow", "skip": "dim"}


# --- the screen ----------------------------------------------------------------------------------------


def console(stream: Any = None) -> Console:
    """Return the console of a stream, standard output by default."""
    stream = stream or sys.stdout
    # a pipe has no width: take that of the terminal it may end on, or one at which sentences read well
    width = 100
    with contextlib.suppress(OSError, ValueError):
        width = os.get_terminal_size(2).columns
    width = shutil.get_terminal_size((width, 24)).columns
    return Console(
        file=stream,
        width=max(width, 20),
        force_terminal=stream.isatty(),
        markup=False,
        highlight=False,
        emoji=False,
    )


def emit(*things: RenderableType) -> None:
    """Print to standard output: styled on a terminal, elsewhere plain text without trailing blanks."""
    screen = console()
    if screen.is_terminal:
        screen.print(*things, sep="\n")
        return
    with screen.capture() as captured:
        screen.print(*things, sep="\n")
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def verbatim(text: str) -> None:
    """Print a text as it is, neither wrapped nor styled."""
    sys.stdout.write(text.rstrip("\n") + "\n")


def plain_table(*columns: str, right: Sequence[str] = (), whole: Sequence[str] = ()) -> Table:
    """Return an empty table: ``right`` columns are aligned right, ``whole`` ones never broken."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            column, justify="right" if column in right else "left", no_wrap=column in whole, overflow="fold"
        )
    return table


class Bar:
    """How far a command is: a bar with the time left on a terminal, lines elsewhere, nothing when quiet.

    On standard error, because solvers are kept silent by redirecting the descriptor of standard output.
    """

    def __init__(self, *, quiet: bool = False, every: float = 0.0) -> None:
        plain = os.environ.get("TERM") == "dumb" or not (sys.stdout.isatty() and sys.stderr.isatty())
        self._quiet, self._plain, self._every = quiet, plain, every
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._begin, self._from, self._said = 0.0, 0, -math.inf

    def __enter__(self) -> Bar:
        if not self._quiet and not self._plain:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(16),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                TextColumn("left"),
                console=console(sys.stderr),
                transient=True,
                speed_estimate_period=3600.0,
            )
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int, text: str) -> None:
        """Say that ``done`` of ``total`` are done; ``text`` names the present one."""
        now = time.monotonic()
        if self._begin == 0.0:
            self._begin, self._from = now, done
        if self._bar is not None:
            # one step has no part to show: the bar then only moves
            shown, short = (None if total == 1 else total), text if len(text) <= 24 else text[:23] + "…"
            if self._task is None:
                self._task = self._bar.add_task(short, total=shown, completed=done)
            self._bar.update(self._task, completed=done, total=shown, description=short)
        elif not self._quiet and total > 1 and (now - self._said >= self._every or done == total):
            self._said = now
            pace = (now - self._begin) / (done - self._from) if done > self._from else 0.0
            left = f", about {duration(pace * (total - done))} left" if pace and done < total else ""
            print(f"{done} of {total} done{left}" + (f": {text}" if text else ""), file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Take the bar off the screen while something is printed."""
        if self._bar is not None:
            self._bar.stop()
        try:
            yield
        finally:
            if self._bar is not None:
                self._bar.start()


def duration(seconds: float) -> str:
    """Return a duration with the unit that reads best."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 9.5 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def rendered(answer: Verification, seconds: float, all_rows: bool) -> list[RenderableType]:
    """Return a verification as things to print: title, table, what was skipped or fell short, and the diagnosis."""
    word, style = verdict(answer)
    title = Text.assemble(
        (answer.formulation, "bold"), f" on {answer.data}: ", (word, style), f" in {duration(seconds)}"
    )
    wide = console().width >= _WIDE
    parts: list[RenderableType] = [title, _every_row(answer, wide) if all_rows else _compact(answer, wide)]
    if not all_rows:
        parts += [*([] if wide else _failures(answer)), *_shortfalls(answer)]
    n = answer.counts
    ran, total = n["pass"] + n["fail"], len(answer.rows)
    counts = Text.assemble(
        f"{ran} of {total} ran: ",
        *counted(n, ("pass", "fail")),
        "; not run: ",
        *counted(n, ("solver", "skip")),
        ".",
    )
    parts.append(counts)
    if not answer.passed:
        parts.append(Text(f"{answer.diagnosis.rstrip('.')}.", STYLE["fail"]))
    return parts


def verdict(answer: Verification) -> tuple[str, str]:
    """Return the verdict's word and style."""
    if answer.passed:
        return "passed", STYLE["pass"]
    return ("FAILED", STYLE["fail"]) if answer.counts["fail"] else ("not shown right", STYLE["solver"])


def counted(counts: dict[str, int], statuses: Sequence[str]) -> list[tuple[str, str] | str]:
    """Return the counts of some statuses, each in its style."""
    parts: list[tuple[str, str] | str] = []
    for status in statuses:
        parts += [", "] if parts else []
        parts.append((f"{counts[status]} {status}", STYLE[status] if counts[status] else "dim"))
    return parts


def _compact(answer: Verification, wide: bool) -> Table:
    """One line a check: its worst row and how many there were of each status."""
    columns = (
        "check",
        "worst",
        "tolerance",
        "rows",
        *(("what the worst row says",) if wide else ()),
    )
    table = plain_table(*columns, right=("worst", "tolerance"), whole=("check", "worst", "tolerance"))
    groups: dict[str, list[Row]] = {}
    for row in answer.rows:
        groups.setdefault(row.check, []).append(row)
    for check, rows in groups.items():
        worst = _worst(rows)
        counts = {status: sum(row.status == status for row in rows) for status in STYLE}
        present = [status for status in STYLE if counts[status]]
        meaning = [Text(_located(worst, rows), STYLE[worst.status] if worst.status != "pass" else "")] if wide else []
        table.add_row(
            check,
            figure(worst.value),
            figure(worst.tolerance),
            Text.assemble(*counted(counts, present)),
            *meaning,
        )
    return table


def _worst(rows: Sequence[Row]) -> Row:
    """The row to show of a check: one that failed before one that passed, the farthest from its tolerance."""
    order = {"fail": 3, "pass": 2, "solver": 1, "skip": 0}

    def key(row: Row) -> tuple[int, float]:
        ratio = row.value / row.tolerance if row.tolerance > 0 else row.value
        return order[row.status], -1.0 if math.isnan(ratio) else ratio

    return max(rows, key=key)


def _located(row: Row, among: Sequence[Row]) -> str:
    several = len({other.plane for other in among}) > 1 and row.status in ("fail", "solver")
    return f"{row.meaning} (plane {row.plane})" if several else row.meaning


def _every_row(answer: Verification, wide: bool) -> Table:
    columns = ("plane", "check", "solver", "value", "tolerance", "status", "meaning")
    if not wide:  # the sentence goes under the figures
        table = plain_table("plane", "evidence", "value", "status", right=("value",), whole=("value", "status"))
        for row in answer.rows:
            what = Text.assemble((f"{row.check} {row.solver}".strip(), "bold"), f"\n{row.meaning}")
            table.add_row(row.plane, what, figure(row.value), Text(row.status, STYLE[row.status]))
        return table
    table = plain_table(*columns, right=("value", "tolerance"), whole=("check", "value", "tolerance", "status"))
    for row in answer.rows:
        status = Text(row.status, STYLE[row.status])
        table.add_row(row.plane, row.check, row.solver, figure(row.value), figure(row.tolerance), status, row.meaning)
    return table


def _failures(answer: Verification) -> list[RenderableType]:
    """The sentence of each check that failed, for a screen whose table has no room for it."""
    worst: dict[str, Row] = {}
    for row in answer.rows:
        if row.status == "fail":
            worst[row.check] = _worst([worst.get(row.check, row), row])
    return [Text(f"{check}: {_located(row, answer.rows)}") for check, row in worst.items()]


def _shortfalls(answer: Verification, most: int = 6) -> list[RenderableType]:
    """Where a solver, not the formulation, fell short: each sentence once, with the checks it concerns."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in answer.rows:
        if row.status == "solver":
            checks = found.setdefault((row.plane, row.meaning), [])
            if row.check not in checks:
                checks.append(row.check)
    lines = [
        Text(f"solver: plane {plane}: {meaning} ({', '.join(checks)})", STYLE["solver"])
        for (plane, meaning), checks in found.items()
    ]
    if len(lines) > most:
        lines = [
            *lines[: most - 1],
            Text(f"solver: and {len(lines) - most + 1} more; --all-rows shows them", STYLE["solver"]),
        ]
    return list(lines)


def figure(value: float) -> str:
    """A figure in as few letters as say its size.

    >>> figure(1.003e-06), figure(0.0), figure(math.nan)
    ('1e-6', '0', '-')
    """
    if math.isnan(value):
        return "-"
    if value == 0 or math.isinf(value):
        return f"{value:g}"
    mantissa, exponent = f"{value:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}" if not -2 <= int(exponent) <= 2 else f"{value:.2g}"
