"""Least squares twin SVM (LS-TWSVM).  Yang, Shao, Jiang (2015), eq. (39), after Kumar, Gopal (2009).

    primal   min   1/2 |S z|^2 + C1/2 |z|^2 + C2 |xi|^2                        s.t.  e - R z = xi  [margin]
    dual     max   e'a - 1/2 a' R (S'S + C1 I)^-1 R' a - |a|^2 / (4 C2)        (a free)
    plane    z = (S'S + C1 I)^-1 R' a

Conventions: C2 multiplies |xi|^2 with no factor 1/2, so an original C/2 |xi|^2 is C2 = C/2 here; C1 carries a
factor 1/2 and multiplies the whole plane, b included.
"""

import cvxpy as cp
import numpy as np

from npsvm_cvx import Formulation, Program, Reduction
from npsvm_cvx.modeling import multiplier_variable, plane_from_dual, plane_variable, slack_variable, whiten


class LSTWSVM(Formulation):
    scheme = "farthest"
    invariances = ("row order", "repetition", "rotation")

    def __init__(self, C1=1.0, C2=1.0):
        self.C1 = C1
        self.C2 = C2

    def primal(self, S, R):
        z, xi = plane_variable(S), slack_variable(R)
        objective = cp.sum_squares(S @ z) / 2 + self.C1 * cp.sum_squares(z) / 2 + self.C2 * cp.sum_squares(xi)
        return Program(cp.Minimize(objective), {"margin": 1 - R @ z == xi}, plane=z)

    def dual(self, S, R):
        F = whiten(S, R, self.C1)  # F F' = R (S'S + C1 I)^-1 R'
        a = multiplier_variable(R)
        return Program(
            cp.Maximize(cp.sum(a) - cp.sum_squares(F.T @ a) / 2 - cp.sum_squares(a) / (4 * self.C2)),
            {},
            multipliers={"margin": a},
            plane=plane_from_dual(S, R, self.C1, a),
        )

    def reductions(self):
        def closed_form(S, R):
            """Z = (S'S + C1 I + 2 C2 R'R)^-1 2 C2 R'e, as the least squares solution of the stacked rows."""
            near = np.vstack([S, np.sqrt(self.C1) * np.eye(S.shape[1]), np.sqrt(2 * self.C2) * R])
            wanted = np.r_[np.zeros(len(S) + S.shape[1]), np.full(len(R), np.sqrt(2 * self.C2))]
            return np.linalg.lstsq(near, wanted, rcond=None)[0]

        return [Reduction("its closed form, one linear system", closed_form)]
