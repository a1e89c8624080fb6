"""``npsvm verify``: reads what is to be verified on what, and shows what was found."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ..display import STYLE, Bar, emit, rendered, verbatim
from ..errors import NPSVMError, unknown
from .ending import note
from .show import hyperparameters, read

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..modeling import Formulation
    from ..verification import Verification


def verify(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME|FILE.py]...", help="Formulations; without any, all that are built in."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="A data set or a file (CSV, ARFF, ...); a small seeded instance otherwise.",
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="COL", help="The file's column of labels; the last otherwise.")
    ] = None,
    kernel: Annotated[str, typer.Option(metavar="NAME", help="linear, rbf, or another of scikit-learn's.")] = "linear",
    gamma: Annotated[str, typer.Option(metavar="X", help="The kernel's gamma: a number, or scale.")] = "scale",
    solver: Annotated[
        list[str] | None,
        typer.Option(
            metavar="S",
            help="A general solver to compare; repeat for several.  clarabel, osqp and ecos otherwise.",
        ),
    ] = None,
    scheme: Annotated[
        str | None, typer.Option(metavar="NAME", help="farthest or nearest; the formulation's own otherwise.")
    ] = None,
    max_rows: Annotated[int, typer.Option(metavar="N", min=2, help="Larger data is subsampled to N rows.")] = 150,
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Of the instance, the subsample and the multipliers.")
    ] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="C1=0.5", help="A hyperparameter's value; repeat for several."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
    all_rows: Annotated[
        bool, typer.Option("--all-rows", help="Show every row of evidence, not one line a check.")
    ] = False,
) -> None:
    """Verify formulations on data.

    Checks the primal, the dual, the way between them, and the fast solver against general ones.

    Exit code 0 when all passed, 1 when a check failed, 2 when the command was wrong.
    """
    with _stdout_kept(as_json):
        answers = _answers(
            names or [],
            _settings(settings or []),
            _data(data, target, max_rows),
            {
                "solvers": _solvers(solver or []),
                "kernel": _kernel(kernel),
                "gamma": _gamma(gamma, kernel),
                "scheme": _scheme(scheme),
                "max_rows": max_rows if data is not None else None,
                "random_state": seed,
            },
            None if as_json else all_rows,
        )
    if as_json:
        verbatim(json.dumps([json.loads(answer.to_json()) for answer in answers], indent=1))
    else:
        _conclude(answers)
    if not all(answer.passed for answer in answers):
        raise typer.Exit(1)


def _answers(
    names: Sequence[str],
    settings: dict[str, float],
    data: tuple[str, tuple[NDArray[Any], NDArray[Any]] | None],
    options: dict[str, Any],
    all_rows: bool | None,
) -> list[Verification]:
    """Verify each formulation, all of them checked before the first; ``all_rows`` is None where nothing is shown."""
    from ..catalog import available

    chosen = [read(name) for name in dict.fromkeys(names or available())]
    _apply(settings, chosen)
    for formulation in chosen:
        formulation.check_hyperparameters()
    answers = []
    with Bar(quiet=all_rows is None) as progress:
        for done, formulation in enumerate(chosen):
            progress(done, len(chosen), Path(formulation.source).name)
            begin = time.monotonic()
            answers.append(_verified(formulation, *data, options))
            if all_rows is not None:
                with progress.aside():
                    emit(*rendered(answers[-1], time.monotonic() - begin, all_rows), Text(""))
    return answers


def _verified(
    formulation: Formulation,
    label: str,
    arrays: tuple[NDArray[Any], NDArray[Any]] | None,
    options: dict[str, Any],
) -> Verification:
    import sklearn

    from ..verification import verify as run

    with sklearn.config_context(print_changed_only=False):  # every hyperparameter is part of what was verified
        answer = run(formulation, arrays, **options)
    title = " ".join(answer.formulation.split())
    return replace(answer, formulation=title, data=answer.data.replace("your data", label, 1))


@contextlib.contextmanager
def _stdout_kept(active: bool) -> Iterator[None]:
    """Send what a formulation's file may print to standard error, so that JSON is alone on the other."""
    if not active:
        yield
        return
    with contextlib.redirect_stdout(sys.stderr):
        yield


def _settings(given: Sequence[str]) -> dict[str, float]:
    found = {}
    for text in given:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise NPSVMError(f"--set {text!r} must be a name, =, and a number, such as C1=0.5.")
        try:
            found[name] = float(value)
        except ValueError:
            raise NPSVMError(f"--set {text!r}: {value!r} is not a number.") from None
    return found


def _apply(settings: dict[str, float], chosen: Sequence[Formulation]) -> None:
    for name, value in settings.items():
        having = [formulation for formulation in chosen if name in hyperparameters(formulation)]
        if not having:
            raise unknown("--set", name, {known for formulation in chosen for known in hyperparameters(formulation)})
        for formulation in having:
            formulation.set_params(**{name: value})
        others = [type(formulation).__name__ for formulation in chosen if formulation not in having]
        if others:
            note(f"{name} is not a hyperparameter of {', '.join(others)}, which keep their own.")


def _solvers(given: Sequence[str]) -> tuple[str, ...]:
    from ..solvers import check_solvers

    return check_solvers([part.strip() for text in given for part in text.split(",")] or ["clarabel", "osqp", "ecos"])


def _kernel(name: str) -> str:
    from ..planes import Rows

    Rows.of(name, [[0.0]])
    return name


def _gamma(text: str, kernel: str) -> float | str:
    if text == "scale":
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise NPSVMError(f"gamma={text!r} must be a positive number or 'scale'.")
    if kernel == "linear":
        note("gamma does nothing with the linear kernel; --kernel rbf uses it.")
    return value


def _scheme(name: str | None) -> str | None:
    from ..planes import SCHEMES

    if name is not None and name not in SCHEMES:
        raise unknown("scheme", name, SCHEMES)
    return name


def _data(
    source: str | None, target: str | None, max_rows: int
) -> tuple[str, tuple[NDArray[Any], NDArray[Any]] | None]:
    """Return the data's label and arrays; None for the seeded instance."""
    from ..datasets import DATASETS, VARIANTS, as_arrays, load_dataset, load_file

    if source is None:
        if target is not None:
            raise NPSVMError(f"target={target!r} names a column of a file; give the file with --data.")
        return "", None
    named = (*DATASETS, *VARIANTS)
    if source in named:
        if target is not None:
            raise NPSVMError(f"target={target!r}: the data set {source} has its labels already; --target is for files.")
        label, bunch = source, load_dataset(source)
    else:
        path = Path(source)
        if not path.suffix and "/" not in source and not path.exists():
            raise unknown("data", source, named)
        try:
            label, bunch = path.name, load_file(path, target)
        except (OSError, ValueError, ImportError) as error:
            if isinstance(error, OSError) and error.strerror:
                raise
            raise NPSVMError(str(error).replace("path: ", "data: ", 1)) from error
    missing = int(bunch.data.isna().to_numpy().sum())
    if missing:
        what = "1 missing value is" if missing == 1 else f"{missing} missing values are"
        note(f"{label}: {what} filled in with the column's median or commonest value.")
    try:
        X, y = as_arrays(bunch)
    except ValueError as error:
        raise NPSVMError(f"data={source!r}: {error}") from error
    if len(X) > max_rows:
        note(f"{label} has {len(X)} rows; {max_rows} of them are verified, classes in proportion (--max-rows).")
    return label, (X, y)


def _conclude(answers: Sequence[Verification]) -> None:
    """Say the outcome of several once more, since the tables have scrolled away."""
    if len(answers) < 2:
        return
    wrong = [answer for answer in answers if not answer.passed]
    good = Text(
        f"{len(answers) - len(wrong)} of {len(answers)} formulations passed.",
        STYLE["fail" if wrong else "pass"],
    )
    emit(good, *(Text(f"{answer.formulation}: {answer.diagnosis.rstrip('.')}.") for answer in wrong))
