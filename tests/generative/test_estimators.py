"""Gradient estimators by enumeration and quadrature against closed forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.foundations import normal_rule
from corollary.generative import DiagonalGaussian, estimator_variance, reparametrised_gradient, score_gradient


class Categorical(eqx.Module):
    logits: jax.Array

    def log_prob(self, z):
        return jax.nn.log_softmax(self.logits)[z.astype(int)]


def normal(theta):
    return DiagonalGaussian(theta["mean"], theta["deviation"])


THETA = {"mean": jnp.array([0.7]), "deviation": jnp.array([0.5])}


def test_the_score_by_enumeration():
    theta, values = jnp.array([0.3, -0.2, 1.0]), jnp.array([2.0, -1.0, 0.5])
    f = lambda z: values[z.astype(int)]  # noqa: E731
    found = score_gradient(f, Categorical, theta, jnp.arange(3.0), weights=jax.nn.softmax(theta), baseline=0.3)
    np.testing.assert_allclose(found, jax.grad(lambda t: jax.nn.softmax(t) @ values)(theta), atol=1e-15)


def test_both_by_quadrature():
    eps, weights = normal_rule(81, np.dtype("float64"))
    f = lambda z: z[0] ** 2  # noqa: E731
    theta = jax.tree.map(lambda a: a.astype(float), THETA)
    path = reparametrised_gradient(f, normal, theta, eps[:, None], weights=weights)
    z = normal(theta).reparametrise(eps[:, None])
    score = score_gradient(f, normal, theta, z, weights=weights)
    for found in (path, score):  # of μ² + σ²
        np.testing.assert_allclose([found["mean"][0], found["deviation"][0]], [1.4, 1.0], rtol=1e-6)


def test_variances():
    f = lambda z: z[0] ** 2  # noqa: E731
    theta = {"mean": jnp.array([0.7]), "deviation": jnp.array([0.5])}
    for how, exact in (("score", 11.5704), ("reparametrised", 1.0)):
        found = estimator_variance(f, normal, theta, 20_000, key=jax.random.key(0), how=how)
        assert float(found["mean"][0]) == pytest.approx(exact, rel=0.15)


def test_sentences():
    with pytest.raises(TypeError, match="f must be a function of z"):
        score_gradient(1.0, normal, THETA, [[0.0]])
    with pytest.raises(TypeError, match="law must be a function of theta"):
        reparametrised_gradient(jnp.sum, THETA, THETA, [[0.0]])
    with pytest.raises(ValueError, match="how must be one of"):
        estimator_variance(jnp.sum, normal, THETA, 10, key=jax.random.key(0), how="both")
