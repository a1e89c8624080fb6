"""Verification for other people's test suites, through pytest.

Three ways in, from one sentence to a folder:

.. code-block:: python

    check_formulation("my_loss.py")  # raises VerificationError, whose message is the diagnosis


    @parametrize_with_checks(["my_loss.py", MyFormulation(C1=0.5), "hnpsvm"])
    def test_formulation(formulation, check):  # one test a formulation and check: test_formulation[my_loss-KKT]
        check(formulation)

and for a folder in which every file is a formulation, one line in its ``conftest.py``::

    my-repository/
        formulations/
            conftest.py     from npsvm_cvx.testing import pytest_collect_file, pytest_pycollect_makemodule
            my_loss.py      a Loss or a Formulation: six lines or forty
            my_variant.py
        tests/
            test_own.py     whatever else is tested
        pyproject.toml      [tool.pytest.ini_options]  testpaths = ["formulations", "tests"]

``pytest`` then shows ``formulations/my_loss.py::dual function``, one test a check, and
``formulations/conftest.py::formulations``, which fails where there is none.  As in the toolkit's own folder, a file
whose name begins with an underscore, and a test file, is no formulation.  With other data or solvers the line is
``pytest_collect_file = npsvm_cvx.testing.collector(data="iris", solvers=["clarabel"], max_rows=60)``.

What a test says
    A failed check is a failed test whose message is the diagnosis.  A check that does not apply is a skip with its
    reason.  Where only a solver fell short, which is evidence for nothing, that is a skip too, and says so; but the
    test ``decided`` fails for a formulation in which nothing failed and nothing decisive ran either.  ``accounted``
    fails if a check is missing from the answer: a suite that ran less than it seems to is worse than none.

A formulation is verified once, whatever the number of its tests.  pytest is imported only where it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import NPSVMError
from .evidence import Row
from .verification import Verification, VerificationError, verify

if TYPE_CHECKING:
    import pytest

    from .collection import CheckedFile

CHECKS = (
    "declaration",
    "curvature",
    "dual function",
    "dual domain",
    "conjugate",
    "weak duality",
    "strong duality",
    "conic dual",
    "KKT",
    "plane from dual",
    "SOR agreement",
    "certified gap",
    "reductions",
    "invariances",
    "predictions",
)
"""The checks, each a test of its own."""

TESTS = (*CHECKS, "decided", "accounted")
"""Every test of a formulation: its checks, whether they decide anything, and whether all are there."""

_NO_DATA = "no data, since it could not be loaded"
_ALIASES = {"primal": "KKT"}  # the KKT check's row on a primal that has no optimum


def check_formulation(formulation: Any, data: Any = None, **options: Any) -> Verification:
    """Verify a formulation, and raise unless it passes.

    Parameters
    ----------
    formulation : name, path, class or object
    data : str, (X, y) or None
        As of :func:`npsvm_cvx.verify`, which takes the other options too.

    Returns
    -------
    Verification

    Raises
    ------
    VerificationError
        An AssertionError; its message is the diagnosis.  A file that cannot be loaded raises it too.

    Examples
    --------
    >>> check_formulation("hnpsvm", solvers=["clarabel"]).passed
    True
    """
    answer = _Answer(formulation, {"data": data, **options})
    answer.verification.raise_for_failures()
    return answer.verification


def parametrize_with_checks(
    formulations: Iterable[Any], data: Any = None, **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that makes of a test function ``(formulation, check)`` one test a formulation and check.

    Parameters
    ----------
    formulations : iterable of names, paths, classes or objects
    data, **options
        As of :func:`npsvm_cvx.verify`.

    Raises
    ------
    NPSVMError
        An empty list: a suite that tests nothing must not look as if it did.

    Examples
    --------
    >>> @parametrize_with_checks(["hnpsvm"])
    ... def test_formulation(formulation, check):
    ...     check(formulation)
    """
    import pytest

    if isinstance(formulations, str | Path):
        raise NPSVMError(f"formulations={formulations!r} must be a list; write [{formulations!r}].")
    given = list(formulations)
    if not given:
        raise NPSVMError("formulations is empty: there is nothing to check.")
    cases = []
    for thing, label in zip(given, _labels(given), strict=True):
        answer = _Answer(thing, {"data": data, **options})
        cases += [pytest.param(thing, Check(test, answer), id=f"{label}-{test}") for test in TESTS]
    return pytest.mark.parametrize(("formulation", "check"), cases)


class Check:
    """One check, to be called on the formulation it was made for, or on another."""

    def __init__(self, name: str, answer: _Answer) -> None:
        self.name = name
        self._answer = answer

    def __call__(self, formulation: Any) -> None:
        """Return if the check passed; raise VerificationError if it failed; skip if it says nothing."""
        same = formulation is self._answer.formulation
        _conclude(self.name, self._answer if same else _Answer(formulation, self._answer.options))

    def __repr__(self) -> str:
        return f"Check({self.name!r})"


class _Answer:
    """A formulation, and what its verification said, asked when first needed."""

    def __init__(self, formulation: Any, options: dict[str, Any]) -> None:
        self.formulation = formulation
        self.options = options
        self._found: Verification | None = None

    @property
    def verification(self) -> Verification:
        """The answer; of a file that cannot be loaded, one failed row that says why."""
        if self._found is None:
            try:
                self._found = verify(self.formulation, **self.options)
            except Exception as error:  # whatever a file does, it is one failing test and not an error in each
                what = str(error) if isinstance(error, NPSVMError) else f"it raised {type(error).__name__}: {error}"
                row = Row("declaration", 1.0, 0.0, "fail", what)
                self._found = Verification(_label(self.formulation), _NO_DATA, [row])
        return self._found


def _conclude(test: str, answer: _Answer) -> None:
    import pytest

    found = answer.verification
    if test == "decided":
        _decided(found)
        return
    if test == "accounted":
        _accounted(found)
        return
    rows = [row for row in found.rows if _ALIASES.get(row.check, row.check) == test]
    failed = [row for row in rows if row.status == "fail"]
    if failed:
        raise VerificationError(_message(found, failed))
    if any(row.status == "pass" for row in rows) or (test == "declaration" and found.rows):
        return
    short = [row for row in rows if row.status == "solver"]
    if short:
        pytest.skip(f"a solver, not the formulation, fell short: {short[0].meaning}")
    if rows:
        pytest.skip(f"does not apply: {rows[0].meaning}")
    pytest.skip(f"not reached: {found.diagnosis}")


def _decided(found: Verification) -> None:
    import pytest

    if found.counts["fail"]:
        pytest.skip("other checks failed, and say what")
    found.raise_for_failures()


def _accounted(found: Verification) -> None:
    import pytest

    if found.counts["fail"]:
        pytest.skip("the verification ended where a check failed")
    seen = {_ALIASES.get(row.check, row.check) for row in found.rows}
    unknown = sorted(seen - set(CHECKS))
    missing = [name for name in CHECKS if name not in seen and name not in ("declaration", *_unreachable(found.rows))]
    if unknown or missing:
        what = ", ".join([*(f"{name} did not run" for name in missing), *(f"{name} is not known" for name in unknown)])
        raise VerificationError(f"{found.formulation}: {len(seen)} of {len(CHECKS)} checks are accounted for: {what}.")


def _unreachable(rows: Sequence[Row]) -> list[str]:
    """A domain is judged within the check of the dual function, which may not apply or not have been solved."""
    judged = any(row.check == "dual function" and row.status in ("pass", "fail") for row in rows)
    return [] if judged else ["dual domain"]


def _message(found: Verification, failed: Sequence[Row]) -> str:
    where = [f"plane {row.plane}" for row in failed[:1] if row.plane] + [row.solver for row in failed[:1] if row.solver]
    where_from = found.formulation if found.data == _NO_DATA else f"{found.formulation} on {found.data}"
    lines = [f"{where_from}: {found.diagnosis}"]
    if failed[0].meaning not in found.diagnosis:
        lines.append(f"{failed[0].check}{' (' + ', '.join(where) + ')' if where else ''}: {failed[0].meaning}")
    return "\n".join(lines)


def _labels(given: Sequence[Any]) -> list[str]:
    """Return a name for each, told apart by a number where two have one name."""
    names = [_label(thing) for thing in given]
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if names.count(name) == 1 else f"{name}#{seen[name]}")
    return found


def _label(thing: Any) -> str:
    if isinstance(thing, type):
        return thing.__name__
    if isinstance(thing, Path) or (isinstance(thing, str) and thing.endswith(".py")):
        return Path(thing).stem
    return thing if isinstance(thing, str) else " ".join(repr(thing).split())


# --- a folder of files ----------------------------------------------------------------------------


def collector(data: Any = None, **options: Any) -> Callable[[Path, pytest.Collector], CheckedFile | None]:
    """Return a ``pytest_collect_file`` hook for the ``conftest.py`` of a folder of formulations.

    Parameters
    ----------
    data, **options
        As of :func:`npsvm_cvx.verify`.
    """

    def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> CheckedFile | None:
        """Collect formulation files, and the conftest that says they are some."""
        from .collection import CheckedFile

        if file_path.name == "conftest.py" and "npsvm_cvx" in file_path.read_text(encoding="utf-8"):
            return CheckedFile.of(parent, file_path, [("formulations", lambda: _some(file_path.parent))])
        if not is_formulation_file(file_path):
            return None
        return CheckedFile.of(parent, file_path, _tests_of(file_path, {"data": data, **options}))

    return pytest_collect_file


pytest_collect_file = collector()
"""The hook with the seeded instance and the solvers of :func:`npsvm_cvx.verify`."""


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> CheckedFile | None:
    """Keep pytest from importing, as a module of tests, a formulation file that is named on the command line."""
    from .collection import CheckedModule

    return CheckedModule.of(parent, module_path, []) if is_formulation_file(module_path) else None


def is_formulation_file(path: Path) -> bool:
    """Whether a file of a folder of formulations is one: Python, not private, no tests.

    >>> [is_formulation_file(Path(name)) for name in ("my_loss.py", "_helper.py", "test_own.py", "conftest.py", "a.md")]
    [True, False, False, False, False]
    """
    name = path.name
    tests = name.startswith(("test_", "_")) or name.endswith("_test.py") or name in ("conftest.py", "setup.py")
    return path.suffix == ".py" and not tests


def _tests_of(path: Path, options: dict[str, Any]) -> list[tuple[str, Callable[[], None]]]:
    answer = _Answer(path, options)
    return [(test, lambda test=test: _conclude(test, answer)) for test in TESTS]  # type: ignore[misc]


def _some(folder: Path) -> None:
    if not any(is_formulation_file(path) for path in folder.rglob("*.py")):
        raise VerificationError(f"{folder.name} holds no formulation: there is nothing to check.")


__all__ = [
    "CHECKS",
    "TESTS",
    "Check",
    "check_formulation",
    "collector",
    "is_formulation_file",
    "parametrize_with_checks",
    "pytest_collect_file",
    "pytest_pycollect_makemodule",
]
