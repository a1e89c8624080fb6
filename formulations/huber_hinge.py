"""Huberised hinge loss in the framework; not in the paper.  After Rosset, Zhu (2007); Wang, Zhu, Zou (2008).

    L(t)  = 0 for u <= 0,  u^2 / (2 delta) for 0 <= u <= delta,  u - delta/2 for u >= delta;  u = 1 - t
    L*(v) = v + delta v^2 / 2  on  -1 <= v <= 0

delta -> 0 is the hinge loss.
"""

import cvxpy as cp

from npsvm_cvx import Loss


class HuberHinge(Loss):
    domain = {"delta": "(0, inf)"}

    def __init__(self, delta=0.5):
        self.delta = delta

    def value(self, t):
        # cp.huber(u, M) is u^2 up to M and 2 M u - M^2 beyond
        return cp.huber(cp.pos(1 - t), self.delta) / (2 * self.delta)

    def conjugate(self, v):
        return v + self.delta * cp.square(v) / 2, [v >= -1, v <= 0]
