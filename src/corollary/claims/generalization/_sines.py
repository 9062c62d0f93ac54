"""A class of one parameter that fits everything: the signs of sines."""

import jax
import numpy as np

from corollary.generalization import SineClass


def gap_of_a_sine(key, n: int, shattered: int) -> float:
    """The gap of a sine that is right on a sample of exponents and nowhere else, all labels being 1."""
    drawn = np.asarray(jax.random.randint(key, (n,), 1, shattered + 1))
    labels = np.zeros(shattered, bool)
    labels[drawn - 1] = True
    sines = SineClass()
    found = sines(sines.member(labels), np.arange(1, shattered + 1))
    return float(found[drawn - 1].mean() - found.mean())
