"""How pytest sees a file of formulations: one node a file, one test a check.  Knows pytest, nothing of formulations.

Imported only where pytest runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

Checks = Sequence[tuple[str, Callable[[], None]]]
"""Names, and what to call: it returns, raises AssertionError, or skips."""


class CheckedFile(pytest.File):
    """A file whose tests are given, not found by importing it: one that does not import has a failing test."""

    checks: Checks = ()

    @classmethod
    def of(cls, parent: pytest.Collector, path: Path, checks: Checks) -> CheckedFile:
        """Return the node of a file with these checks."""
        made: CheckedFile = cls.from_parent(parent, path=path)
        made.checks = checks
        return made

    def collect(self) -> Iterator[CheckItem]:
        """Yield one test a check."""
        for name, call in self.checks:
            yield CheckItem.of(self, name, call)


class CheckItem(pytest.Item):
    """One check of one file."""

    call: Callable[[], None]

    @classmethod
    def of(cls, parent: pytest.Collector, name: str, call: Callable[[], None]) -> CheckItem:
        """Return the test of one check."""
        made: CheckItem = cls.from_parent(parent, name=name)
        made.call = call
        return made

    def runtest(self) -> None:
        """Run the check."""
        self.call()

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any, **kwargs: Any) -> Any:
        """Return the sentence of a failed check; the trace behind it is the toolkit's and helps nobody."""
        if isinstance(excinfo.value, AssertionError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, *args, **kwargs)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return where the test is and what its report is headed."""
        return self.path, 0, f"{self.path.stem}: {self.name}"


class CheckedModule(CheckedFile, pytest.Module):
    """What stands where pytest would import a file."""
