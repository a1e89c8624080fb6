"""1-norm least squares twin SVM.  Yang, Shao, Jiang (2015), eq. (40), after Gao, Ye, Shao (2011).

    primal   min   |eta|_1 + C1 |zeta|_1 + C2 |xi|_1
             s.t.  e - R z = xi  [margin],  S z = eta  [near],  z = zeta  [ridge]
    dual     max   e'a    s.t.  R'a = S'b + n  [plane],  |a| <= C2,  |b| <= 1,  |n| <= C1
    plane    z is the multiplier of [plane]

Conventions: a linear program, so planes need not be unique and few coefficients are nonzero; no factor 1/2 anywhere;
C1 multiplies the whole plane, b included.  Equivalently |R'a - S'b| <= C1, the form with n eliminated.
"""

import cvxpy as cp

from npsvm_cvx import Formulation, Program
from npsvm_cvx.modeling import multiplier_variable, plane_variable, slack_variable


class L1LSTWSVM(Formulation):
    scheme = "farthest"
    invariances = ("row order", "repetition")  # the 1-norm of a plane does change when the features are rotated

    def __init__(self, C1=1.0, C2=1.0):
        self.C1 = C1
        self.C2 = C2

    def primal(self, S, R):
        z, zeta = plane_variable(S), plane_variable(S)
        eta, xi = slack_variable(S, "eta"), slack_variable(R)
        objective = cp.norm1(eta) + self.C1 * cp.norm1(zeta) + self.C2 * cp.norm1(xi)
        return Program(
            cp.Minimize(objective), {"margin": 1 - R @ z == xi, "near": S @ z == eta, "ridge": z == zeta}, plane=z
        )

    def dual(self, S, R):
        a, b, n = multiplier_variable(R), multiplier_variable(S, "b"), multiplier_variable(S.T, "n")
        return Program(
            cp.Maximize(cp.sum(a)),
            {
                "plane": R.T @ a == S.T @ b + n,
                "margin bound": cp.abs(a) <= self.C2,
                "near bound": cp.abs(b) <= 1,
                "ridge bound": cp.abs(n) <= self.C1,
            },
            multipliers={"margin": a, "near": b, "ridge": n},
            plane="plane",
        )
