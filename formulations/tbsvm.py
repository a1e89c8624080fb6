"""Twin bounded SVM (TBSVM).  Yang, Shao, Jiang (2015), eq. (9), after Shao et al. (2011).

    primal   min   1/2 |S z|^2 + C1/2 |z|^2 + C2 e'xi     s.t.  R z + xi >= e  [margin],  xi >= 0  [slack]
    dual     max   e'a - 1/2 a' R (S'S + C1 I)^-1 R' a    s.t.  0 <= a <= C2
    plane    z = (S'S + C1 I)^-1 R' a

Conventions: S are the rows of class k and R minus those of the other classes, so that the plane passes close to its
own class; C1 carries a factor 1/2 and multiplies the whole plane, b included; C2 multiplies the sum of the slacks.
"""

import cvxpy as cp

from npsvm_cvx import Formulation, Program, Reduction, load
from npsvm_cvx.modeling import multiplier_variable, plane_from_dual, plane_variable, slack_variable, whiten


class TBSVM(Formulation):
    scheme = "nearest"
    invariances = ("row order", "repetition", "rotation")

    def __init__(self, C1=1.0, C2=1.0):
        self.C1 = C1
        self.C2 = C2

    def primal(self, S, R):
        z, xi = plane_variable(S), slack_variable(R)
        objective = cp.sum_squares(S @ z) / 2 + self.C1 * cp.sum_squares(z) / 2 + self.C2 * cp.sum(xi)
        return Program(cp.Minimize(objective), {"margin": R @ z + xi >= 1, "slack": xi >= 0}, plane=z)

    def dual(self, S, R):
        F = whiten(S, R, self.C1)  # F F' = R (S'S + C1 I)^-1 R'
        a = multiplier_variable(R)
        return Program(
            cp.Maximize(cp.sum(a) - cp.sum_squares(F.T @ a) / 2),
            {"lower": a >= 0, "upper": a <= self.C2},
            multipliers={"margin": a, "slack": self.C2 - a},
            plane=plane_from_dual(S, R, self.C1, a),
        )

    def reductions(self):
        return [Reduction("TWSVM when its eps is this C1", load("twsvm")(self.C2, eps=self.C1))]
