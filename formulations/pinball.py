"""Pinball loss in the framework; not in the paper.  After Huang, Shi, Suykens (2014).

    L(t)  = max(u, -tau u),  u = 1 - t        a sample beyond its margin is drawn back with slope tau
    L*(v) = v  on  -1 <= v <= tau

tau = 0 is the hinge loss, tau = 1 the absolute loss.
"""

import cvxpy as cp

from npsvm_cvx import Loss


class Pinball(Loss):
    domain = {"tau": "[0, 1]"}

    def __init__(self, tau=0.5):
        self.tau = tau

    def value(self, t):
        return cp.maximum(1 - t, -self.tau * (1 - t))

    def conjugate(self, v):
        return v, [v >= -1, v <= self.tau]
