"""Smooth twin SVM.  Yang, Shao, Jiang (2015), eq. (42), after Kumar, Gopal (2008).

    primal   min   1/2 |S z|^2 + C1/2 |z|^2 + C2 |xi|^2    s.t.  R z + xi >= e  [margin],  xi >= 0  [slack]
    dual     max   e'a - 1/2 a' R (S'S + C1 I)^-1 R' a - |a|^2 / (4 C2)    s.t.  a >= 0
    plane    z = (S'S + C1 I)^-1 R' a

Conventions: the loss is the squared hinge, with no factor 1/2 before C2; [slack] is never active with a nonzero
multiplier, so its multiplier is zero; C1 carries a factor 1/2 and multiplies the whole plane, b included.
"""

import cvxpy as cp
import numpy as np

from npsvm_cvx import Formulation, Program
from npsvm_cvx.modeling import multiplier_variable, plane_from_dual, plane_variable, slack_variable, whiten


class SmoothTWSVM(Formulation):
    scheme = "farthest"
    invariances = ("row order", "repetition", "rotation")

    def __init__(self, C1=1.0, C2=1.0):
        self.C1 = C1
        self.C2 = C2

    def primal(self, S, R):
        z, xi = plane_variable(S), slack_variable(R)
        objective = cp.sum_squares(S @ z) / 2 + self.C1 * cp.sum_squares(z) / 2 + self.C2 * cp.sum_squares(xi)
        return Program(cp.Minimize(objective), {"margin": R @ z + xi >= 1, "slack": xi >= 0}, plane=z)

    def dual(self, S, R):
        F = whiten(S, R, self.C1)  # F F' = R (S'S + C1 I)^-1 R'
        a = multiplier_variable(R)
        return Program(
            cp.Maximize(cp.sum(a) - cp.sum_squares(F.T @ a) / 2 - cp.sum_squares(a) / (4 * self.C2)),
            {"lower": a >= 0},
            multipliers={"margin": a, "slack": np.zeros(R.shape[0])},
            plane=plane_from_dual(S, R, self.C1, a),
        )
