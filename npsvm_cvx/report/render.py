"""A report as Markdown and as one self-contained HTML file.  Formats; computes nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

import jinja2
import pandas as pd

from ..errors import NPSVMError
from .analysis import Cell, Report, Table
from .figures import Picture

BEGIN, END = "<!-- appendix -->", "<!-- end of appendix -->"
"""What the appendix stands between, in Markdown and HTML alike."""


def write(report: Report, pictures: Sequence[Picture], out: Path) -> Path:
    """Write ``index.html`` and ``README.md`` into ``out``; return the HTML file's path."""
    page = out / "index.html"
    put(out / "README.md", markdown(report, pictures))
    put(page, html(report, pictures))
    return page


def put(path: Path, content: str) -> None:
    """Write a text file.

    Raises
    ------
    NPSVMError
        It cannot be written.
    """
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise NPSVMError(f"{path} cannot be written: {error.strerror or error}.") from error


def csv(frame: pd.DataFrame, path: Path, digits: str) -> None:
    """Write a tidy table, figures in the given format."""
    try:
        frame.to_csv(path, index=False, float_format=digits, lineterminator="\n")
    except OSError as error:
        raise NPSVMError(f"{path} cannot be written: {error.strerror or error}.") from error


def text(cell: Cell, decimals: int = 1) -> str:
    """Return a cell as text: a figure with so many decimals, a missing one as two dashes.

    >>> text(9.26), text(9.26, 2), text(None), text(float("nan")), text(1234), text("--")
    ('9.3', '9.26', '--', '--', '1,234', '--')
    """
    if cell is None:
        return "--"
    if isinstance(cell, float):
        return "--" if math.isnan(cell) else f"{cell:.{decimals}f}"
    if isinstance(cell, int):
        return f"{cell:,}"
    return cell


def markdown(report: Report, pictures: Sequence[Picture]) -> str:
    """Return the report as Markdown, the answer first."""
    parts = [f"# {report.title}", report.answer]
    parts.append("\n".join(f"- {label}: {value}" for label, value in report.facts))
    parts += [_markdown_picture(picture) for picture in pictures if not picture.before]
    for table in report.tables:
        parts.append(_markdown_section(table, [picture for picture in pictures if picture.before == table.title]))
    parts += [_markdown_appendix(report.appendix)] if report.appendix else []
    parts.append("## How to read this\n\n" + "\n".join(f"- {note}" for note in report.notes))
    parts.append("## How it was made\n\n" + "\n".join(f"- {label}: {value}" for label, value in report.setup))
    return "\n\n".join(parts) + "\n"


def _markdown_picture(picture: Picture) -> str:
    caption = _markdown_escape(picture.caption)
    return f"![{caption}]({picture.name}.png)\n\n*{caption}*"


def _markdown_section(table: Table, pictures: Sequence[Picture] = ()) -> str:
    intro = [table.intro] if table.intro else []
    return "\n\n".join([f"## {table.title}", *map(_markdown_picture, pictures), *intro, _markdown_table(table)])


def _markdown_appendix(tables: Sequence[Table]) -> str:
    return "\n\n".join([BEGIN, *map(_markdown_section, tables), END])


def _markdown_table(table: Table) -> str:
    lines = [
        "| " + " | ".join(_markdown_escape(c) for c in table.columns) + " |",
        "|" + "|".join("---:" if r else "---" for r in figures_in(table)) + "|",
    ]
    lines += ["| " + " | ".join(_markdown_escape(text(c, table.decimals)) for c in row) + " |" for row in table.rows]
    return "\n".join(lines)


def figures_in(table: Table) -> list[bool]:
    """Return for every column whether it holds figures, or words in a figure's place, and so is set to the right."""
    return [all(_is_figure(row[i]) for row in table.rows) for i in range(len(table.columns))]


def _is_figure(cell: Cell) -> bool:
    return not isinstance(cell, str) or bool(re.match(r"^[-+<]?[\d.,]+( ms| s|%)?$|^--$|^not run$|^failed$", cell))


def _markdown_escape(value: str) -> str:
    return re.sub(r"([\\|*_<>`])", r"\\\1", value.replace("\n", " "))


def html(report: Report, pictures: Sequence[Picture]) -> str:
    """Return the report as one HTML page with nothing to load."""
    appendix = _html_appendix(report.appendix) if report.appendix else ""
    return _environment().get_template("report.html.j2").render(report=report, pictures=pictures, appendix=appendix)


def _html_appendix(tables: Sequence[Table]) -> str:
    return f"{BEGIN}\n{_environment().get_template('tables.html.j2').render(tables=tables, pictures=())}{END}"


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("npsvm_cvx.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["cell"] = text
    environment.filters["shade"] = _shade
    environment.filters["right"] = figures_in
    environment.filters["sort_key"] = _sort_key
    return environment


def _sort_key(cell: Cell) -> str | None:
    """Return what a cell is sorted by where that is not the text shown: a figure, or the value of a power of two."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if not isinstance(cell, str):
        return str(cell)
    shown = re.match(r"^(?:[A-Za-z]\w* = )?(?:2\^(-?\d+)|(\d+))$", cell)
    if shown is None:
        return None
    return f"{2.0 ** int(shown[1]):g}" if shown[1] else shown[2]


def refresh(appendix: Sequence[Table], out: Path) -> Path:
    """Put the appendix into the written report in ``out``, in the old one's place; return the HTML file's path.

    Raises
    ------
    NPSVMError
        There is no report in the folder, or it cannot be written.
    """
    try:
        _put(out / "README.md", _markdown_appendix(appendix) + "\n\n", "## How to read this")
        return _put(out / "index.html", _html_appendix(appendix) + "\n", "<section><h2>How to read this")
    except OSError as error:
        raise NPSVMError(f"{out} holds no report that can be written: {error.strerror or error}.") from error


def _put(path: Path, section: str, before: str) -> Path:
    whole = path.read_text(encoding="utf-8")
    kept = re.sub(rf"{re.escape(BEGIN)}.*?{re.escape(END)}\s*", "", whole, flags=re.DOTALL)
    head, mark, tail = kept.partition(before)
    if not mark:
        raise NPSVMError(f"{path} is not a report of this kind: it holds no {before!r}.")
    path.write_text(head + section + mark + tail, encoding="utf-8")
    return path


def _shade(cell: Cell) -> str:
    """Return how many digits out of 16 a bar shows, as a percentage; nothing for a cell that is no figure."""
    return f"{min(float(cell), 16.0) / 16.0:.0%}" if isinstance(cell, int | float) else "0%"
