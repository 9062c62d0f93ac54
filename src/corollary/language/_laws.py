"""Arguments that are probabilities."""

import numpy as np

from corollary._validate import concrete, real, within


def law(name: str, p, shape: str = "... k", dims: dict | None = None):
    """`p` as probabilities along the last axis: not negative, and of sum 1 up to the rounding of single precision."""
    out = within(name, real(name, p, shape, dims), 0.0)
    if concrete(out):
        sums = np.asarray(out, float).sum(-1)
        if (bad := np.abs(sums - 1) > 1e-5).any():
            raise ValueError(f"{name} must sum to 1 along its last axis, got a sum of {sums[bad].flat[0]:.6g}.")
    return out
