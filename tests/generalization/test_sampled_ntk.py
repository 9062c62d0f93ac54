"""Matrices of single units against Jacobians, and the bound by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.generalization import sampled_ntk_deviation, unit_gram_bound, unit_grams

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(4, 3)), RNG.normal(size=(5, 3))


def test_units_against_the_jacobian():
    found = unit_grams(X, W, jax.nn.softplus)
    for k in range(5):
        jacobian = jax.jacobian(lambda w: jax.nn.softplus(jnp.asarray(X) @ w))(jnp.asarray(W[k]))
        np.testing.assert_allclose(found[k], jacobian @ jacobian.T, rtol=1e-12)


def test_bounds():
    np.testing.assert_allclose(unit_gram_bound(X, 0.5), 0.25 * np.sum(X**2))
    expected = 0.25 * np.sum(X**2) * (2 / np.sqrt(9) + 6 * np.sqrt(np.log(20) / 18))
    np.testing.assert_allclose(sampled_ntk_deviation(X, 9, 0.1, slope=0.5), expected)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: unit_grams(X, W[:, :2]), "w must have shape"),
        (lambda: unit_grams(X, W, "tanh"), "activation must be a function"),
        (lambda: unit_gram_bound(X, 0.0), "slope must be positive"),
        (lambda: sampled_ntk_deviation(X, 9, 1.5, slope=1.0), "delta must be in"),
    ],
)
def test_bad_input_is_one_sentence(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()
