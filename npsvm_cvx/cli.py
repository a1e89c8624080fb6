"""The command line, ``npsvm``: reads the arguments, asks the library, and renders what it says.

Computes nothing itself.  What needs CVXPY or the solvers is imported inside the command that needs it.

Exit codes: 0 done and all passed, 1 a check failed, 2 the command was wrong or could not be carried out,
130 interrupted, 141 the reader of the output went away.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import math
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from .display import STYLE, Bar, emit, plain_table, rendered, verbatim
from .errors import NPSVMError, SolverError, unknown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .forms import BoxLP, BoxQP, Coefficients
    from .modeling import Formulation
    from .store import Store
    from .verification import Verification

REPORTS = {
    "verification": "npsvm_cvx.report.verification",
    "losses": "npsvm_cvx.report.losses",
    "checker": "npsvm_cvx.report.checker",
    "performance": "npsvm_cvx.report.performance",
    "paper": "npsvm_cvx.report.paper",
}
"""The kinds of report and the module that builds each."""

# typer carries its own copy of click in some releases and depends on click in others; this class is in both
_UsageError = cast(type[Exception], next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException"))


# --- errors, and the way out ---------------------------------------------------------------------------


class _Group(TyperGroup):
    """The commands, such that whatever goes wrong in one ends as a sentence and an exit code."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        end = given.index("--") if "--" in given else len(given)
        shown = "--traceback" in given[:end]  # wherever it stands, before the command or after
        given = [word for word in given[:end] if word != "--traceback"] + given[end:]
        extra["standalone_mode"] = False
        sys.exit(_guarded(lambda: super(_Group, self).main(given, *rest, **extra), shown))

    def invoke(self, ctx: Any) -> Any:
        # these two are caught before typer sees them, which would answer each in its own way
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except KeyboardInterrupt:
            _complain("interrupted.")
            raise typer.Exit(130) from None
        except BrokenPipeError:
            with contextlib.suppress(OSError):  # what is still buffered must not be tried again at exit
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(141) from None


def _guarded(call: Callable[[], Any], shown: bool) -> int:
    try:
        code = call()
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        _complain("interrupted.")
        return 130
    except Exception as error:
        if shown:
            traceback.print_exc()
        _complain(_sentence(error))
        return 2


def _sentence(error: Exception) -> str:
    if isinstance(error, _UsageError):
        context = getattr(error, "ctx", None)
        where = f" See '{context.command_path} --help'." if context is not None else ""
        message = str(cast(Any, error).format_message())
        return message + ("" if message.endswith((".", "?")) else ".") + where
    if isinstance(error, NPSVMError | SolverError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}." if error.filename and error.strerror else str(error)
    return f"unexpected {type(error).__name__}: {error}; run again with --traceback to see where."


def _complain(message: str) -> None:
    print(f"npsvm: {' '.join(message.split())}", file=sys.stderr)


def _note(message: str) -> None:
    _complain(f"note: {message}")


app = typer.Typer(
    name="npsvm",
    cls=_Group,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command in ``sys.argv``; the entry point of ``npsvm``."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        _complain(f"warning: {message}")

    warnings.showwarning = show
    app(prog_name="npsvm")


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    tracebacks: Annotated[
        bool, typer.Option("--traceback", help="Show the traceback of an error; may stand anywhere.")
    ] = False,
) -> None:
    """Write a nonparallel-hyperplane SVM once; know if its dual is right and if the fast solver agrees."""
    if version:
        from . import __version__

        typer.echo(f"npsvm {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


@app.command("list")
def list_(data: Annotated[bool, typer.Option("--data", help="List the data sets instead.")] = False) -> None:
    """List the formulations, or the data sets."""
    if data:
        _list_data()
        return
    from .catalog import available, load

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    for name in available():
        formulation = load(name)()
        title = _statement(formulation).partition("\n")[0].strip()
        values = ", ".join(f"{k}={v:g}" for k, v in _hyperparameters(formulation).items())
        grid.add_row(name, Text(title))
        grid.add_row("", Text(f"{formulation.scheme}; {values}; SOR: {_sor(formulation)}", "dim"))
    emit(grid)


def _list_data() -> None:
    from .datasets import DATASETS, VARIANTS, load_dataset

    table = plain_table(
        "name", "rows", "columns", "classes", "missing", right=("rows", "columns", "classes", "missing")
    )
    for name in (*DATASETS, *VARIANTS):
        if name == VARIANTS[0]:
            table.add_section()
        bunch = load_dataset(name)
        missing = int(bunch.data.isna().to_numpy().sum())
        table.add_row(Text(name, "bold"), *map(str, (*bunch.data.shape, len(bunch.target_names), missing or "")))
    emit(table, Text(f"{len(DATASETS)} sets, and below the line {len(VARIANTS)} other forms of some of them."))


def _statement(formulation: Formulation) -> str:
    """The docstring of the file a formulation was loaded from."""
    return (sys.modules[type(formulation).__module__].__doc__ or "(the file has no docstring)").strip("\n")


def _hyperparameters(formulation: Formulation) -> dict[str, float]:
    return dict(formulation.get_params(deep=False))


def _sor(formulation: Formulation) -> str:
    from .compile import compile

    try:
        return compile(formulation).shape.partition(":")[0]
    except NPSVMError as reason:
        return f"not used: {reason}"


@app.command()
def show(
    formulation: Annotated[str, typer.Argument(metavar="NAME|FILE.py", help="A formulation's name or file.")],
) -> None:
    """Show a formulation: its statement and its numbers.

    The statement is the file's own; then hyperparameters, scheme, and what the fast solver reads off the dual.
    """
    found = _load(formulation)
    verbatim(_statement(found))
    verbatim("")
    table = plain_table("hyperparameter", "default", "domain")
    domain = {"C1": "(0, inf)", "C2": "(0, inf)", **type(found).domain}
    for name, value in _hyperparameters(found).items():
        table.add_row(name, f"{value:g}", domain.get(name, "any real number"))
    near, far = (
        ("the other classes", "class k") if found.scheme == "farthest" else ("class k", "minus the other classes")
    )
    where = {"farthest": "farthest", "nearest": "nearest"}[found.scheme]
    emit(
        table,
        Text(""),
        _paragraph("scheme", f"{found.scheme}: S holds {near}, R {far}; a sample goes to the {where} plane"),
        *_derived(found),
        _paragraph("SOR", _read_off(found)),
        _paragraph("equals", "\n".join(claim.claim for claim in found.reductions()) or "nothing declared"),
        _paragraph("unchanged by", ", ".join(found.invariances) or "nothing declared"),
    )


def _derived(formulation: Formulation) -> list[Table]:
    """The conjugate that follows from a loss's values, where the file declares none."""
    from .fenchel import as_written
    from .framework import Framework

    if not isinstance(formulation, Framework) or formulation.loss.conjugate is not None:
        return []
    found = as_written(formulation.loss)
    return [] if found is None else [_paragraph("conjugate", f"derived: L*(v) = {found[0]}\n{found[1]}")]


def _paragraph(label: str, text: str) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=13, no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    grid.add_row(label, Text(text))
    return grid


def _read_off(formulation: Formulation) -> str:
    """What compile read off the declared dual, in words."""
    from .compile import compile
    from .forms import BoxQP, Steps

    try:
        compiled = compile(formulation)
    except NPSVMError as reason:
        return f"not used: {reason} The estimator then uses a general solver."
    at = ", ".join(f"{k} = {v:g}" for k, v in _hyperparameters(formulation).items())
    if isinstance(compiled, Steps):
        return compiled.shape
    words = _box_qp(compiled) if isinstance(compiled, BoxQP) else _box_lp(compiled)
    return "\n".join([compiled.shape, *words, f"read off the declared dual at {at}"])


def _box_qp(compiled: BoxQP) -> list[str]:
    on_w, on_b = compiled.ridge
    near = "S'S" if compiled.near == 1 else f"{compiled.near:g} S'S"
    ridge = ("I" if on_w == 1 else f"{on_w:g} I") if on_w == on_b else f"{on_w:g} on w and {on_b:g} on b"
    return [
        f"minimises 1/2 a' R M^-1 R' a + sum_i h(a_i), M = {near} + {ridge}",
        f"h(a) = {_polynomial(compiled.samples)}",
        f"each multiplier {_interval(compiled.samples)}",
        "the plane is M^-1 R' a",
    ]


def _box_lp(compiled: BoxLP) -> list[str]:
    terms = []
    for block in compiled.blocks:
        factor = {1.0: "+ ", -1.0: "- "}.get(block.scale, f"{block.scale:+g} ")
        terms.append(factor + {"R": f"R'{block.name}", "S": f"S'{block.name}"}.get(block.rows, block.name))
    equation = " ".join(terms).removeprefix("+ ")
    lines = [f"multipliers tied by one equation, {equation} = 0, whose own multiplier is the plane"]
    rows = {"R": "a row of R", "S": "a row of S", "I": "an entry of the plane"}
    for block in compiled.blocks:
        cost = _polynomial(block.samples)
        weight = f"costs {cost}" if cost != "0" else "costs nothing"
        lines.append(f"{block.name}, one {rows[block.rows]}: each {_interval(block.samples)} and {weight}")
    return [line.replace("costs -a", "gains a") for line in lines]


def _polynomial(c: Coefficients) -> str:
    text = ""
    for factor, power in ((c.linear, " a"), (c.curvature / 2, " a^2"), (c.constant, "")):
        if factor:
            size = f"{abs(factor):g}{power}"
            text += (" - " if factor < 0 else " + ") + (size.removeprefix("1 ") if power else size)
    return (
        text.removeprefix(" + ").replace(" - ", "-", 1) if text.startswith(" - ") else text.removeprefix(" + ") or "0"
    )


def _interval(c: Coefficients) -> str:
    low, high = math.isfinite(c.lower), math.isfinite(c.upper)
    if low and high:
        return f"lies between {c.lower:g} and {c.upper:g}"
    return f"is at least {c.lower:g}" if low else f"is at most {c.upper:g}" if high else "is free"


def _load(source: str) -> Formulation:
    """Return the formulation of a name or a file, or the error that says which of the two was meant."""
    from .catalog import available, resolve

    if source not in available():
        path = Path(source).expanduser()
        if path.suffix != ".py":
            if Path(f"{source}.py").is_file():
                raise NPSVMError(f"formulation={source!r} is not known; for the file write {source}.py.")
            if path.exists() or "/" in source:
                raise NPSVMError(f"formulation={source!r} is neither a formulation's name nor a .py file.")
    return resolve(source)


# --- verify --------------------------------------------------------------------------------------------


@app.command()
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
    from .catalog import available

    chosen = [_load(name) for name in dict.fromkeys(names or available())]
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

    from .verification import verify as run

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
        having = [formulation for formulation in chosen if name in _hyperparameters(formulation)]
        if not having:
            raise unknown("--set", name, {known for formulation in chosen for known in _hyperparameters(formulation)})
        for formulation in having:
            formulation.set_params(**{name: value})
        others = [type(formulation).__name__ for formulation in chosen if formulation not in having]
        if others:
            _note(f"{name} is not a hyperparameter of {', '.join(others)}, which keep their own.")


def _solvers(given: Sequence[str]) -> tuple[str, ...]:
    from .solvers import check_solvers

    return check_solvers([part.strip() for text in given for part in text.split(",")] or ["clarabel", "osqp", "ecos"])


def _kernel(name: str) -> str:
    from .planes import Rows

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
        _note("gamma does nothing with the linear kernel; --kernel rbf uses it.")
    return value


def _scheme(name: str | None) -> str | None:
    from .planes import SCHEMES

    if name is not None and name not in SCHEMES:
        raise unknown("scheme", name, SCHEMES)
    return name


def _data(
    source: str | None, target: str | None, max_rows: int
) -> tuple[str, tuple[NDArray[Any], NDArray[Any]] | None]:
    """Return the data's label and arrays; None for the seeded instance."""
    from .datasets import DATASETS, VARIANTS, as_arrays, load_dataset, load_file

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
        _note(f"{label}: {what} filled in with the column's median or commonest value.")
    try:
        X, y = as_arrays(bunch)
    except ValueError as error:
        raise NPSVMError(f"data={source!r}: {error}") from error
    if len(X) > max_rows:
        _note(f"{label} has {len(X)} rows; {max_rows} of them are verified, classes in proportion (--max-rows).")
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


# --- report and new ------------------------------------------------------------------------------------


@app.command()
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


stores = typer.Typer(
    help="See, tidy and export the results that a report saved.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
app.add_typer(stores, name="store")
_Where = Annotated[Path, typer.Argument(metavar="WHERE", help="A report's folder, or its results.sqlite.")]


def _store(where: Path) -> Store:
    from .housekeeping import store_path
    from .store import Store

    return Store(store_path(where.expanduser()), create=False)


@stores.command()
def ls(where: _Where) -> None:
    """List what a store holds, by kind."""
    from .housekeeping import overview

    with _store(where) as store:
        groups = overview(store)
    table = plain_table("results of", "how many", "kB", "last saved", right=("how many", "kB"))
    for group in groups:
        table.add_row(group.what, f"{group.results:,}", f"{group.size / 1000:,.1f}", group.last)
    emit(table if groups else Text("nothing"))


@stores.command()
def gc(
    where: _Where,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many there are.")] = False,
) -> None:
    """Drop results that no report of this version would look for."""
    from .housekeeping import unused

    with _store(where) as store:
        keys = unused(store)
        rest = len(store.keys()) - len(keys)
        if not dry_run:
            store.drop(keys)
    emit(Text(f"{'would drop' if dry_run else 'dropped'} {len(keys):,} results, kept {rest:,}"))


@stores.command()
def export(
    where: _Where,
    out: Annotated[Path, typer.Option(metavar="FILE", help="A .csv or .json file to write.")],
) -> None:
    """Write all results as CSV or JSON."""
    from .housekeeping import export as write

    with _store(where) as store:
        count = write(store, out.expanduser())
    emit(Text(f"wrote {count:,} results to {out}"))


@app.command()
def recheck(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A proof saved by Solution.proof.to_json().")],
) -> None:
    """Check a saved certificate anew, from data, plane and multipliers alone; exit 1 if it proves less than claimed."""
    from .certificate import Proof, claim_of

    try:
        text = file.read_text(encoding="utf-8")
        proof = Proof.from_json(text)
    except OSError as error:
        raise NPSVMError(f"file={str(file)!r} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise NPSVMError(f"file={str(file)!r} is not a certificate: it is no text.") from error
    except ValueError as error:
        raise NPSVMError(f"file={str(file)!r} is {error}.") from error
    found, (gap, value) = proof.check(), claim_of(json.loads(text))
    emit(
        Text(
            f"proved: the plane's value {found.value:.9g} is within {found.gap:.2g} of the optimum "
            f"({found.relative_gap:.1e} of it), rounding included"
        )
    )
    # another machine sums in another order: the bound differs in its own last digits, never by a factor
    if not found.gap <= gap * 1.01 + 1e-300:
        emit(Text(f"the file claims {gap:.2g}, which is less than it proves", STYLE["fail"]))
        raise typer.Exit(1)
    if not abs(found.value - value) <= 1e-9 * max(abs(value), abs(found.value)):
        emit(Text(f"the file claims the value {value:.9g}", STYLE["fail"]))
        raise typer.Exit(1)


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new file's name, without the ending.")],
    formulation: Annotated[
        bool,
        typer.Option("--formulation/--loss", help="Primal, dual and recovery; or a loss and its conjugate."),
    ] = False,
    folder: Annotated[Path, typer.Option("--dir", metavar="D", help="Where to write it.")] = Path(),
) -> None:
    """Write a loss or a formulation to start from.

    NAME.py verifies as it stands, and its comments say what to change.
    """
    from .scaffold import create

    path = create(name, "formulation" if formulation else "loss", folder)
    verbatim(f"wrote {path}\nverify it: npsvm verify {path}")


if __name__ == "__main__":
    main()
