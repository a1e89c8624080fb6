"""npsvm-cvx: write a nonparallel-hyperplane SVM once, and know whether its dual is right."""

from .baselines import GEPSVM
from .catalog import available, load
from .datasets import load_dataset, make_cross_planes, make_three_lines
from .estimator import NPSVMClassifier
from .modeling import Formulation, Framework, Loss, Program, Reduction
from .solve import solve
from .verify import Verification, VerificationError, verify

__version__ = "0.1.0"
__all__ = [
    "GEPSVM",
    "Formulation",
    "Framework",
    "Loss",
    "NPSVMClassifier",
    "Program",
    "Reduction",
    "Verification",
    "VerificationError",
    "available",
    "load",
    "load_dataset",
    "make_cross_planes",
    "make_three_lines",
    "solve",
    "verify",
]
