"""npsvm-cvx: write a nonparallel-hyperplane SVM once, and know whether its dual is right."""

from .catalog import available, load
from .modeling import Formulation, Framework, Loss, Program, Reduction

__version__ = "0.1.0"
__all__ = ["Formulation", "Framework", "Loss", "Program", "Reduction", "available", "load"]
