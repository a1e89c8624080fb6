"""The tables of a report as LaTeX, with booktabs.  Formats; computes nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .analysis import Cell, Table
from .render import figures_in, text

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "χ": r"$\chi$",
    "²": r"$^2$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "–": "--",
    "“": "``",
    "”": "''",
    "\n": " ",
}


def escape(value: str) -> str:
    r"""Return a text that LaTeX prints as it is; every cell passes here once, after formatting.

    >>> print(escape("50% of a_b & 2^-8"))
    50\% of a\_b \& 2\textasciicircum{}-8
    """
    return "".join(_SPECIAL.get(letter, letter) for letter in value)


def document(title: str, tables: Sequence[Table], notes: Sequence[str] = ()) -> str:
    """Return a document of its own: all tables, each a ``longtable`` that may be copied into a paper, and the notes."""
    parts = [
        r"\documentclass{article}",
        r"\usepackage[T1]{fontenc}",
        r"\usepackage[utf8]{inputenc}",
        r"\usepackage[a4paper,landscape,margin=15mm]{geometry}",
        r"\usepackage{array}",
        r"\usepackage{booktabs}",
        r"\usepackage{longtable}",
        rf"\title{{{escape(title)}}}",
        r"\date{}",
        r"\begin{document}",
        r"\maketitle",
        r"\footnotesize",
        r"\setlength{\tabcolsep}{3pt}",
        *(section(table) for table in tables if table.rows),
    ]
    if notes:
        parts += [r"\section*{How to read this}", r"\begin{itemize}"]
        parts += [rf"\item {escape(note)}" for note in notes] + [r"\end{itemize}"]
    return "\n".join([*parts, r"\end{document}"]) + "\n"


def section(table: Table) -> str:
    """Return one table under what is said of it."""
    intro = rf"\paragraph{{{escape(table.title)}.}} {escape(table.intro)}" + "\n\n" if table.intro else ""
    return intro + longtable(table)


def longtable(table: Table) -> str:
    """Return one table."""
    kinds = ["r" if figures else "l" for figures in figures_in(table)]
    widths = [
        max(len(table.columns[i]), *(len(_shown(table, row[i])) for row in table.rows)) + 2
        for i in range(len(table.columns))
    ]
    # columns of sentences are broken into lines, in what room the others leave
    long = [i for i, width in enumerate(widths) if width > _WIDE]
    rest = _LINE - sum(width for i, width in enumerate(widths) if i not in long)
    size = ""
    if long:
        share = max(rest / len(long), _NARROWEST)
        size = r"\scriptsize" if share * len(long) > rest else ""
        for i in long:
            kinds[i] = rf">{{\raggedright\arraybackslash}}p{{{share / _LINE:.2f}\textwidth}}"
    head = " & ".join(escape(column) for column in table.columns) + r" \\"
    numbered = re.match(r"Table (\d+): (.*)", table.title)  # the paper's own numbers; LaTeX prints "Table n:" itself
    title = numbered[2] if numbered else table.title
    lines = [
        rf"{{{size}",
        *([rf"\setcounter{{table}}{{{int(numbered[1]) - 1}}}"] if numbered else []),
        rf"\begin{{longtable}}{{@{{}}{''.join(kinds)}@{{}}}}",
        rf"\caption{{{escape(title[:1].upper() + title[1:])}}}\label{{tab:{_slug(table.title)}}} \\",
        *(r"\toprule", head, r"\midrule", r"\endfirsthead"),
        *(r"\toprule", head, r"\midrule", r"\endhead"),
        *(r"\bottomrule", r"\endfoot"),
    ]
    lines += [" & ".join(escape(_shown(table, cell)) for cell in row) + r" \\" for row in table.rows]
    lines += [r"\end{longtable}", "}"]
    return "\n".join(lines) + "\n"


_LINE = 190  # letters across the page at this size
_WIDE = 45  # letters from which a column is broken into lines,
_NARROWEST = 24  # and how few of them a line may have


def _shown(table: Table, cell: Cell) -> str:
    return text(cell, table.decimals)


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
