"""The registry of formulations, which is the folder they lie in: load by name or by path.

Knows the file system and the vocabulary; must not know what any file says.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import FormulationError, NPSVMError, unknown
from .framework import Framework, Loss
from .modeling import Formulation, _kind, _one_line

PACKAGE = "npsvm_cvx.formulations"


def available() -> list[str]:
    """Return the names of the formulations that are installed, sorted.

    >>> "hnpsvm" in available()
    True
    """
    return sorted(path.stem for path in _folder().glob("*.py") if not path.stem.startswith("_"))


def load(source: str | Path) -> type[Formulation]:
    """Return the formulation class a name or a ``.py`` file declares; a loss file gives its framework formulation.

    Raises
    ------
    NPSVMError
        Unknown name (with the nearest), or no such file.
    FormulationError
        A file that does not import, or declares none, or more than one.

    Examples
    --------
    >>> load("pinball")(C1=1.0, C2=4.0, tau=0.2)
    Pinball(C2=4.0, tau=0.2)
    """
    text = str(source)
    if not text.endswith(".py") and "/" not in text:
        if text not in available():
            raise unknown("formulation", text, available())
        path, module_name = _folder() / f"{text}.py", f"{PACKAGE}.{text}"
    else:
        path = Path(source).expanduser().resolve()
        if path.suffix != ".py":
            raise NPSVMError(f"formulation={text!r} must be a name or a .py file.")
        if not path.is_file():
            raise NPSVMError(f"formulation={text!r}: there is no such file.")
        # the content is part of the name: an edited file is a new module, and an instance keeps the class it came from
        digest = hashlib.sha256(str(path).encode() + path.read_bytes()).hexdigest()[:16]
        module_name = f"npsvm_cvx_user_{path.stem}_{digest}".replace("-", "_").replace(" ", "_")
    module = _import(path, module_name)
    found = module.__dict__.get("_npsvm_cvx_class")
    if found is None:
        found = _declared(module, path)
        module.__dict__["_npsvm_cvx_class"] = found
    return found


def resolve(formulation: str | Path | type[Formulation] | type[Loss] | Formulation | Loss) -> Formulation:
    """Return a formulation object for a name, path, class or object, a loss becoming its framework formulation.

    Examples
    --------
    >>> resolve("hnpsvm")
    HNPSVM()
    """
    given: Any = formulation
    if isinstance(given, str | Path):
        return _instantiate(load(given))
    if isinstance(given, type) and issubclass(given, Formulation):
        return _instantiate(given)
    if isinstance(given, type) and issubclass(given, Loss):
        return _instantiate(framework_class(given))
    if isinstance(given, Loss):
        return _of_loss(given)
    if isinstance(given, Formulation):
        return given
    raise NPSVMError(f"formulation must be a name, a path, or a Formulation or Loss; found {_kind(formulation)}.")


def _of_loss(loss: Loss) -> Formulation:
    try:
        flat = framework_class(type(loss))
    except FormulationError:  # an object may do without defaults, and name its hyperparameters as it likes
        return Framework(loss)
    return flat(**loss.get_params(deep=False))


def framework_class(loss: type[Loss]) -> type[Framework]:
    """Return the Framework class of a loss, whose hyperparameters are C1, C2 and the loss's own; always the same."""
    key: Any = loss
    return _framework_class(key)


@cache
def _framework_class(loss: Any) -> type[Framework]:
    own = list(inspect.signature(loss).parameters.values())
    # an attribute of that name would hide what the framework keeps there
    taken = {"C1", "C2", "loss", *dir(Framework), *dir(Loss)} & {p.name for p in own}
    if taken:
        raise FormulationError(f"{loss.__name__}: the name {sorted(taken)[0]} is the framework's; rename it.")
    for parameter in own:
        if parameter.default is inspect.Parameter.empty:
            raise FormulationError(f"{loss.__name__}: the hyperparameter {parameter.name} needs a default.")
    try:
        loss().get_params()
    except AttributeError as error:
        raise FormulationError(
            f"{loss.__name__}.__init__ must store its arguments under their own names ({_one_line(error)})."
        ) from None
    except Exception:
        pass
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature(
        [
            inspect.Parameter("self", keyword),
            inspect.Parameter("C1", keyword, default=1.0),
            inspect.Parameter("C2", keyword, default=1.0),
            *own,
        ]
    )

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        for name, value in list(bound.arguments.items())[1:]:
            setattr(self, name, value)

    __init__.__signature__ = signature  # type: ignore[attr-defined]

    def current_loss(self: Any) -> Loss:
        return loss(**{p.name: getattr(self, p.name) for p in own})

    members = {
        "__init__": __init__,
        "__doc__": loss.__doc__,
        "__module__": loss.__module__,
        "domain": loss.domain,
        "loss": property(current_loss),
        "loss_class": loss,
        "__reduce__": lambda self: (_of_class, (loss, self.get_params(deep=False))),
    }
    return type(loss.__name__, (Framework,), members)


def path_of(source: str) -> Path:
    """Return the file that :func:`load` reads for a name or a path."""
    return _folder() / f"{source}.py" if source in available() else Path(source).expanduser().resolve()


def _folder() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))


def _import(path: Path, name: str) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        line = _line_of(error, path)
        raise FormulationError(f"{path.name}{line} raised {type(error).__name__}: {_one_line(error)}") from error
    return module


def _line_of(error: BaseException, path: Path) -> str:
    if isinstance(error, SyntaxError) and error.lineno:
        return f", line {error.lineno},"
    trace, line = error.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = f", line {trace.tb_lineno},"
        trace = trace.tb_next
    return line


def _declared(module: ModuleType, path: Path) -> type[Formulation]:
    own = [
        thing
        for thing in vars(module).values()
        if isinstance(thing, type) and issubclass(thing, Formulation | Loss) and thing.__module__ == module.__name__
    ]
    own = [cls for cls in own if not any(cls is not other and issubclass(other, cls) for other in own)]
    if len(own) != 1:
        names = ", ".join(cls.__name__ for cls in own) or "none"
        raise FormulationError(f"{path.name} must declare one Formulation or one Loss; found {len(own)} ({names}).")
    cls = own[0]
    found = framework_class(cls) if issubclass(cls, Loss) else cls
    # an instance is pickled as (where it was loaded from, its hyperparameters): worker processes load the file again
    builtin = module.__name__.startswith(PACKAGE + ".")
    found.source = path.stem if builtin else str(path)
    found.__reduce__ = _reduce  # type: ignore[assignment,method-assign]
    return found


def _reduce(self: Formulation) -> tuple[Callable[..., Formulation], tuple[str, dict[str, Any]]]:
    return _restore, (self.source, self.get_params(deep=False))


def _of_class(loss: type[Loss], params: dict[str, Any]) -> Formulation:
    return framework_class(loss)(**params)


def _restore(source: str, params: dict[str, Any]) -> Formulation:
    return load(source)(**params)


def _instantiate(cls: type[Formulation]) -> Formulation:
    try:
        return cls()
    except TypeError as error:
        raise FormulationError(f"{cls.__name__}: every hyperparameter needs a default ({_one_line(error)}).") from error
