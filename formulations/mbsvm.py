"""Multiple birth SVM (MBSVM).  Yang, Shao, Jiang (2015), section 2, after Yang, Shao, Zhang (2013).

    primal   min   1/2 |S z|^2 + eps/2 |z|^2 + C2 e'xi    s.t.  R z + xi >= e  [margin],  xi >= 0  [slack]
    dual     max   e'a - 1/2 a' R (S'S + eps I)^-1 R' a   s.t.  0 <= a <= C2
    plane    z = (S'S + eps I)^-1 R' a

Conventions: S are the rows of every class but k and R those of class k, so that a class lies far from its own plane;
C2 multiplies the sum of the slacks; eps, which the original adds only when it inverts S'S, stands in both problems.
"""

import cvxpy as cp

from npsvm_cvx import Formulation, Program, Reduction, load
from npsvm_cvx.modeling import multiplier_variable, plane_from_dual, plane_variable, slack_variable, whiten


class MBSVM(Formulation):
    scheme = "farthest"
    invariances = ("row order", "repetition", "rotation")
    domain = {"eps": "[0, inf)"}
    ridge = "eps"

    def __init__(self, C2=1.0, eps=1e-3):
        self.C2 = C2
        self.eps = eps

    def primal(self, S, R):
        z, xi = plane_variable(S), slack_variable(R)
        objective = cp.sum_squares(S @ z) / 2 + self.C2 * cp.sum(xi)
        if self.eps > 0:  # a term of weight zero would only mislead the interior-point solvers
            objective += self.eps * cp.sum_squares(z) / 2
        return Program(cp.Minimize(objective), {"margin": R @ z + xi >= 1, "slack": xi >= 0}, plane=z)

    def dual(self, S, R):
        F = whiten(S, R, self.eps)  # F F' = R (S'S + eps I)^-1 R'
        a = multiplier_variable(R)
        return Program(
            cp.Maximize(cp.sum(a) - cp.sum_squares(F.T @ a) / 2),
            {"lower": a >= 0, "upper": a <= self.C2},
            multipliers={"margin": a, "slack": self.C2 - a},
            plane=plane_from_dual(S, R, self.eps, a),
        )

    def reductions(self):
        return [Reduction("HNPSVM with C1 = eps", load("hnpsvm")(self.eps, self.C2))] if self.eps > 0 else []
