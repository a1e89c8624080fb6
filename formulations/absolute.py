"""Absolute loss in the framework; not in the paper.

L(t)  = |1 - t|        every sample is drawn to margin one, outliers with bounded force
L*(v) = v  on  -1 <= v <= 1
"""

import cvxpy as cp

from npsvm_cvx import Loss


class Absolute(Loss):
    def value(self, t):
        return cp.abs(1 - t)

    def conjugate(self, v):
        return v, [v >= -1, v <= 1]
