"""npsvm-cvx: write a nonparallel-hyperplane SVM once, and know whether its dual is right."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .baselines import GEPSVM
    from .catalog import available, load
    from .datasets import load_dataset, make_cross_planes, make_three_lines
    from .estimator import NPSVMClassifier
    from .framework import Framework, Loss
    from .modeling import Formulation, Program, Reduction
    from .plotting import DecisionRegionDisplay
    from .selection import NPSVMClassifierCV, npsvm_path
    from .solution import solve
    from .verification import Verification, VerificationError, verify

__version__ = "0.1.0"
__all__ = [
    "GEPSVM",
    "DecisionRegionDisplay",
    "Formulation",
    "Framework",
    "Loss",
    "NPSVMClassifier",
    "NPSVMClassifierCV",
    "Program",
    "Reduction",
    "Verification",
    "VerificationError",
    "available",
    "load",
    "load_dataset",
    "make_cross_planes",
    "make_three_lines",
    "npsvm_path",
    "solve",
    "verify",
]

# names are found when first asked for, so that what needs no CVXPY (checking a saved certificate) imports none
_HOMES = {
    "baselines": ["GEPSVM"],
    "catalog": ["available", "load"],
    "datasets": ["load_dataset", "make_cross_planes", "make_three_lines"],
    "estimator": ["NPSVMClassifier"],
    "framework": ["Framework", "Loss"],
    "modeling": ["Formulation", "Program", "Reduction"],
    "plotting": ["DecisionRegionDisplay"],
    "selection": ["NPSVMClassifierCV", "npsvm_path"],
    "solution": ["solve"],
    "verification": ["Verification", "VerificationError", "verify"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
