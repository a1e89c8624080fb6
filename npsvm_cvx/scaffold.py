"""The files ``npsvm new`` writes: a loss or a formulation that verifies as it stands and says what to change.

Knows the vocabulary of a formulation file as text; imports none of it.
"""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path
from typing import Literal

from .errors import NPSVMError

Kind = Literal["loss", "formulation"]

_LOSS = '''"""{title}: a loss in the framework, to be changed into yours.

    L(t)  = s/2 max(0, u)^2,  u = 1 - t        t is the margin of one sample, wanted: t >= 1
    L*(v) = v + v^2 / (2 s)  on  v <= 0

These lines are the statement: `npsvm show {file}` prints them, so keep them true to the code below.
"""

import cvxpy as cp

from npsvm_cvx import Loss


class {cls}(Loss):
    # The interval of each hyperparameter: a value outside is refused by name.  C1 and C2 belong to the
    # framework, so do not use these two names here.
    domain = {{"s": "(0, inf)"}}

    # Hyperparameters are the arguments; each has a default and is stored as it is given, under its own name.
    def __init__(self, s=2.0):
        self.s = s

    # L(t), one entry a sample, from CVXPY's convex functions (cp.maximum, cp.pos, cp.abs, cp.square, cp.huber,
    # cp.logistic, cp.exp, ...).  The framework adds the rest of the primal:
    #     min  1/2 |S z|^2 + C1/2 |z|^2 + C2 sum_i L(t_i)    s.t.  t = R z
    def value(self, t):
        return self.s * cp.square(cp.pos(1 - t)) / 2

    # The conjugate L*(v) = sup_t (v t - L(t)) and where it is finite: (value, [constraints on v]).
    # From it the framework writes the dual, with v = -a / C2, and the fast solver reads its numbers.
    # Here, with t = 1 - u and v <= 0, the supremum of v - v u - s/2 u^2 over u >= 0 is at u = -v / s;
    # for v > 0 there is none, since v t grows and L stays 0.
    # No conjugate yet?  Delete this method.  If the loss is made of straight lines and parabolas and its conjugate
    # of one piece, as here, it is derived for you and `npsvm verify` prints the line to type in; if not, CVXPY's
    # own dual stands in, without the fast solver.
    def conjugate(self, v):
        return v + cp.square(v) / (2 * self.s), [v <= 0]
'''

_FORMULATION = '''"""{title}: a nonparallel-hyperplane SVM, to be changed into yours.

    primal   min   1/2 |S z|^2 + C1/2 |z|^2 + C2 e'xi     s.t.  R z + xi >= e  [margin],  xi >= 0  [slack]
    dual     max   e'a - 1/2 a' R (S'S + C1 I)^-1 R' a    s.t.  0 <= a <= C2
    plane    z = (S'S + C1 I)^-1 R' a

Conventions: C1 carries a factor 1/2 and multiplies the whole plane, b included; C2 multiplies the sum of
the slacks.

These lines are the statement: `npsvm show {file}` prints them, so keep them true to the code below.
"""

import cvxpy as cp

from npsvm_cvx import Formulation, Program
from npsvm_cvx.modeling import multiplier_variable, plane_from_dual, plane_variable, slack_variable, whiten


class {cls}(Formulation):
    # Which samples are the near rows S and which the margin rows R of class k:
    #   "farthest"  S: the other classes  R: class k                   a sample goes to the farthest plane
    #   "nearest"   S: class k            R: minus the other classes   a sample goes to the nearest plane
    scheme = "farthest"

    # The interval of each hyperparameter.  C1 and C2 are positive without being listed.
    domain = {{}}

    # Hyperparameters are the arguments; each has a default and is stored as it is given, under its own name.
    def __init__(self, C1=1.0, C2=1.0):
        self.C1 = C1
        self.C2 = C2

    # One plane z = [w; b] from S (m x d) and R (l x d), whose last column is ones (or minus ones).
    # Name every constraint, and write bounds as constraints too: a variable's attribute has no multiplier.
    def primal(self, S, R):
        z, xi = plane_variable(S), slack_variable(R)
        objective = cp.sum_squares(S @ z) / 2 + self.C1 * cp.sum_squares(z) / 2 + self.C2 * cp.sum(xi)
        return Program(cp.Minimize(objective), {{"margin": R @ z + xi >= 1, "slack": xi >= 0}}, plane=z)

    # The dual you derived, and two things more.  `multipliers`: what the multiplier of each constraint of the
    # primal is, nonnegative for an inequality; stationarity in xi makes the one of [slack] C2 - a, whence
    # a <= C2.  `plane`: how z is recovered from them.
    # No dual yet?  Delete this method: CVXPY's own dual then stands in, without the fast solver.
    def dual(self, S, R):
        F = whiten(S, R, self.C1)  # F F' = R (S'S + C1 I)^-1 R', safer than a product handed to quad_form
        a = multiplier_variable(R)
        return Program(
            cp.Maximize(cp.sum(a) - cp.sum_squares(F.T @ a) / 2),
            {{"lower": a >= 0, "upper": a <= self.C2}},
            multipliers={{"margin": a, "slack": self.C2 - a}},
            plane=plane_from_dual(S, R, self.C1, a),
        )
'''

_TEMPLATES: dict[str, str] = {"loss": _LOSS, "formulation": _FORMULATION}
_TAKEN = {"Loss", "Formulation", "Program", "Cp"}


def class_name(name: str) -> str:
    """Return the class for a file name, in capitals, clear of the names the template itself uses.

    >>> class_name("my_new_loss"), class_name("loss")
    ('MyNewLoss', 'MyLoss')
    """
    parts = [part for part in re.split(r"_+", name) if part]
    joined = "".join(part[0].upper() + part[1:] for part in parts)
    return f"My{joined}" if joined in _TAKEN or not joined.isidentifier() or keyword.iskeyword(joined) else joined


def template(name: str, kind: Kind) -> str:
    """Return the text of a new file."""
    title = name.replace("_", " ").strip().capitalize() or name
    return _TEMPLATES[kind].format(title=title, cls=class_name(name), file=f"{name}.py")


def create(name: str, kind: Kind, folder: Path) -> Path:
    """Write ``NAME.py`` into a folder, which is made if need be, and return its path; an existing file stays.

    Raises
    ------
    NPSVMError
        The name is no Python identifier, would hide a module, or is taken; or the folder cannot be written.
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        bare = name.removesuffix(".py")
        hint = (
            f"write {bare!r}, without the ending"
            if bare != name and bare.isidentifier()
            else "use letters, digits and _"
        )
        raise NPSVMError(f"name={name!r} is not a Python identifier; {hint}.")
    if name in sys.stdlib_module_names or name in (
        "npsvm_cvx",
        "cvxpy",
        "numpy",
        "scipy",
        "sklearn",
        "pandas",
    ):
        raise NPSVMError(f"name={name!r}: a file {name}.py would hide the Python module {name}; choose another name.")
    path = folder.expanduser() / f"{name}.py"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(template(name, kind))
    except FileExistsError:
        if path.parent.is_dir():
            raise NPSVMError(f"{path} exists and is left as it is; choose another name or --dir.") from None
        raise NPSVMError(f"dir={str(folder)!r} is not a folder.") from None
    except OSError as error:
        raise NPSVMError(f"dir={str(folder)!r} cannot be written: {error.strerror or error}.") from error
    return path
