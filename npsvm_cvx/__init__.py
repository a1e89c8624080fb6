"""npsvm-cvx: write a nonparallel-hyperplane SVM once, and know whether its dual is right."""

from .catalog import available, load
from .datasets import load_dataset, make_cross_planes, make_three_lines
from .modeling import Formulation, Framework, Loss, Program, Reduction
from .solve import solve

__version__ = "0.1.0"
__all__ = [
    "Formulation",
    "Framework",
    "Loss",
    "Program",
    "Reduction",
    "available",
    "load",
    "load_dataset",
    "make_cross_planes",
    "make_three_lines",
    "solve",
]
