"""How a command ends: whatever goes wrong becomes one sentence and an exit code."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, cast

import typer
from typer.core import TyperGroup

from ..errors import NPSVMError, SolverError

# typer carries its own copy of click in some releases and depends on click in others; this class is in both
_UsageError = cast(type[Exception], next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException"))


class Group(TyperGroup):
    """The commands, such that whatever goes wrong in one ends as a sentence and an exit code."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Run a command and exit with its code."""
        given = list(sys.argv[1:] if args is None else args)
        end = given.index("--") if "--" in given else len(given)
        shown = "--traceback" in given[:end]  # wherever it stands, before the command or after
        given = [word for word in given[:end] if word != "--traceback"] + given[end:]
        extra["standalone_mode"] = False
        sys.exit(_guarded(lambda: super(Group, self).main(given, *rest, **extra), shown))

    def invoke(self, ctx: Any) -> Any:
        """Run it, and end well where it is interrupted or its reader goes away."""
        # these two are caught before typer sees them, which would answer each in its own way
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except KeyboardInterrupt:
            complain("interrupted.")
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
        complain("interrupted.")
        return 130
    except Exception as error:
        if shown:
            traceback.print_exc()
        complain(_sentence(error))
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


def complain(message: str) -> None:
    """Say one line on standard error."""
    print(f"npsvm: {' '.join(message.split())}", file=sys.stderr)


def note(message: str) -> None:
    """Say what was done that was not asked for, on standard error."""
    complain(f"note: {message}")
