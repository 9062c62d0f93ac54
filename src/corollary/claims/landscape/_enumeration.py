"""Exact expectations over random signs: all of them."""

import itertools

import numpy as np


def all_signs(*shape):
    """All arrays of signs of this shape: their mean is an exact expectation."""
    return np.array(list(itertools.product((-1.0, 1.0), repeat=int(np.prod(shape))))).reshape(-1, *shape)
