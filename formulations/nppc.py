"""Nonparallel plane proximal classifier (NPPC).  Yang, Shao, Jiang (2015), eq. (41), after Ghorai et al. (2009).

    primal   min   1/2 |S z|^2 + C1/2 |z|^2 + C2 (d e'xi + (1 - d) |xi|^2)     s.t.  e - R z = xi  [margin]
    dual     max   e'a - 1/2 a' R (S'S + C1 I)^-1 R' a - |a - C2 d e|^2 / (4 C2 (1 - d))        (a free)
    plane    z = (S'S + C1 I)^-1 R' a

Conventions: 0 < d < 1 weighs the linear against the squared slack, neither with a factor 1/2; the slack has no sign,
so a sample beyond its margin by more than d / (2 (1 - d)) is drawn back; C1 carries a factor 1/2, b included.
"""

import cvxpy as cp

from npsvm_cvx import Formulation, Program, Reduction, load
from npsvm_cvx.modeling import multiplier_variable, plane_from_dual, plane_variable, slack_variable, whiten


class NPPC(Formulation):
    scheme = "farthest"
    invariances = ("row order", "repetition", "rotation")
    domain = {"d": "(0, 1)"}

    def __init__(self, C1=1.0, C2=1.0, d=0.5):
        self.C1 = C1
        self.C2 = C2
        self.d = d

    def primal(self, S, R):
        z, xi = plane_variable(S), slack_variable(R)
        loss = self.d * cp.sum(xi) + (1 - self.d) * cp.sum_squares(xi)
        objective = cp.sum_squares(S @ z) / 2 + self.C1 * cp.sum_squares(z) / 2 + self.C2 * loss
        return Program(cp.Minimize(objective), {"margin": 1 - R @ z == xi}, plane=z)

    def dual(self, S, R):
        F = whiten(S, R, self.C1)  # F F' = R (S'S + C1 I)^-1 R'
        a = multiplier_variable(R)
        spread = cp.sum_squares(a - self.C2 * self.d) / (4 * self.C2 * (1 - self.d))
        return Program(
            cp.Maximize(cp.sum(a) - cp.sum_squares(F.T @ a) / 2 - spread),
            {},
            multipliers={"margin": a},
            plane=plane_from_dual(S, R, self.C1, a),
        )

    def reductions(self):
        # the planes differ by O(d), so the claim is tested at the d where that is below the tolerance
        limit = type(self)(self.C1, self.C2, d=1e-9)
        return [Reduction("LS-TWSVM as d -> 0", load("ls_twsvm")(self.C1, self.C2), of=limit)]
