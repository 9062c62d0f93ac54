"""Fits of coins: a wide network reaches 1, a class of known complexity stays below it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary import Network
from corollary.generalization import random_label_fit

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(16, 4))
Y = np.zeros(16, int)


def test_a_wide_network_fits_all_and_a_constant_only_the_majority():
    def wide(key):
        return eqx.nn.MLP(4, 2, 100, 1, key=key)

    found = random_label_fit(wide, "cross_entropy", (X, Y), key=KEY, draws=3, steps=300)
    np.testing.assert_array_equal(found.fits, 1.0)
    np.testing.assert_allclose(found.lower, 1 - np.sqrt(2 * np.log(20) / (16 * 3)), rtol=1e-12)

    def constant(key):
        return Network(lambda w, x: w, jax.random.normal(key, ()))

    some = random_label_fit(constant, "logistic", (X, Y), key=KEY, draws=200, steps=300, optimiser=optax.sgd(1.0))
    # the constants 1 and -1 fit the majority: the mean of |sum of 16 coins|/16 is 0.196
    exact = np.mean([abs(sum(1 - 2 * (i >> j & 1) for j in range(16))) for i in range(2**16)]) / 16
    assert some.lower <= exact
    np.testing.assert_allclose(jnp.mean(some.fits), exact, atol=0.05)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: random_label_fit(3, "logistic", (X, Y), key=KEY), "make must be a function of a key"),
        (lambda: random_label_fit(lambda key: 3, "logistic", (X, Y), key=KEY), "network must be callable"),
        (
            lambda: random_label_fit(lambda key: eqx.nn.Linear(4, 2, key=key), "hinge", (X, Y), key=KEY),
            "loss must be one of 'cross_entropy'",
        ),
        (
            lambda: random_label_fit(lambda key: eqx.nn.Linear(4, 2, key=key), "squared", (X, Y), key=KEY, delta=0),
            "delta must be in",
        ),
    ],
)
def test_bad_input_is_one_sentence(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()
