"""Mixture couplings against scipy's logistic laws, the determinant of the Jacobian, and their inverse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from corollary.generative import AffineCoupling, MixtureCoupling

MASK = np.array([True, False, True, False])


def network(parts):
    """A fixed random map of the four numbers to all that the coupling asks for."""
    w = 0.5 * np.random.default_rng(0).normal(size=((2 + 3 * parts) * 4, 4))
    b = np.random.default_rng(1).normal(size=len(w))
    return lambda z: jnp.tanh(w @ z) + b


def test_values_and_determinant():
    z, layer = np.array([0.3, -1.2, 0.8, 2.0]), MixtureCoupling(MASK, network(3), 3)
    out, log_det = layer.forward(z)
    r, s, *rest = np.asarray(network(3)(jnp.where(MASK, z, 0))).reshape(11, 4)
    weights, mu, nu = special.softmax(rest[:3], axis=0), np.array(rest[3:6]), np.array(rest[6:])
    share = (weights * stats.logistic(mu, np.exp(nu)).cdf(z)).sum(0)
    np.testing.assert_allclose(out, np.where(MASK, z, special.logit(share) * np.exp(r) + s), rtol=1e-9)
    jacobian = jax.jacfwd(lambda z: layer.forward(z)[0])(z)
    assert float(log_det) == pytest.approx(np.linalg.slogdet(jacobian)[1])
    np.testing.assert_allclose(layer.inverse(out), z, atol=1e-9)


def test_far_out():
    layer, z = MixtureCoupling(MASK, network(3), 3), np.array([0.3, -400.0, 0.8, 500.0])
    out, log_det = layer.forward(z)
    assert np.isfinite(out).all()
    assert np.isfinite(log_det)
    np.testing.assert_allclose(layer.inverse(out), z, rtol=1e-9)


def test_one_part_is_an_affine_coupling():
    z, one = np.array([0.3, -1.2, 0.8, 2.0]), network(1)

    def affine(z):
        r, s, _, mu, nu = one(z).reshape(5, 4)
        return jnp.concatenate([r - nu, s - mu * jnp.exp(r - nu)])

    for ours, theirs in zip(
        MixtureCoupling(MASK, one, 1).forward(z), AffineCoupling(MASK, affine).forward(z), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_sentences():
    with pytest.raises(TypeError, match="mask must be an array of True and False"):
        MixtureCoupling([1.0, 0.0], network(1), 1)
    with pytest.raises(TypeError, match="network must be a network of one example"):
        MixtureCoupling(MASK, 3.0, 1)
    with pytest.raises(ValueError, match=r"must return an array of shape \(32,\), got \(20,\)"):
        MixtureCoupling(MASK, network(1), 2).forward(jnp.zeros(4))
    with pytest.raises(ValueError, match=r"z must be one example of shape \(4,\)"):
        MixtureCoupling(MASK, network(1), 1).forward(jnp.zeros(3))
