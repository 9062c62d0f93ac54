"""The bound and its gap: three ways to the same number, enumeration, and the evidence that they add up to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.generative import (
    BernoulliDecoder,
    DiagonalGaussian,
    GaussianMixture,
    LatentModel,
    LinearGaussian,
    elbo,
    importance_bound,
    variational_gap,
)

RNG = np.random.default_rng(5)
MODEL = (RNG.normal(size=(3, 2)), RNG.normal(size=3), 0.7)
X = RNG.normal(size=3)


def test_three_ways_to_the_bound():
    model, q = LinearGaussian(*MODEL), DiagonalGaussian([0.3, -0.2], [0.5, 0.8])
    closed = float(elbo(model, q, X, how="closed"))
    assert float(elbo(model, q, X, how="quadrature", nodes=41)) == pytest.approx(closed, abs=1e-10)
    drawn = [float(elbo(model, q, X, how="sample", samples=4000, key=jax.random.key(k))) for k in range(2)]
    assert drawn == pytest.approx([closed] * 2, abs=0.2)
    assert closed + float(variational_gap(model, q, X)) == pytest.approx(float(model.log_evidence(X)), abs=1e-12)
    exact = model.posterior(X)
    assert float(elbo(model, exact, X, how="closed")) == pytest.approx(float(model.log_evidence(X)), abs=1e-12)


def test_many_samples_find_the_evidence():
    model, q = LinearGaussian(*MODEL), DiagonalGaussian([0.3, -0.2], [1.0, 1.0])
    bound = jax.jit(lambda key: importance_bound(model, q, X, 20_000, key=key))(jax.random.key(0))
    assert float(bound) == pytest.approx(float(model.log_evidence(X)), abs=0.1)


def test_a_component_as_latent_variable():
    model = GaussianMixture([0.3, 0.7], [[0.0], [2.0]], [[[1.0]], [[0.5]]])
    x, q = jnp.array([0.8]), jnp.array([0.9, 0.1])
    bound = float(elbo(model, q, x, how="closed"))
    joint = np.asarray(model.log_joint(x))
    assert bound == pytest.approx(0.9 * (joint[0] - np.log(0.9)) + 0.1 * (joint[1] - np.log(0.1)))
    assert bound + float(variational_gap(model, q, x)) == pytest.approx(float(model.log_prob(x)), abs=1e-14)
    assert np.isfinite(float(elbo(model, [1.0, 0.0], x, how="closed")))


def test_a_mixture_as_posterior():
    model = LatentModel(BernoulliDecoder(lambda z: jnp.array([3.0, -1.0]) * z[0]), 1)
    q = GaussianMixture([0.4, 0.6], [[0.0], [1.0]], [[[1.0]], [[0.5]]])
    x = jnp.array([1.0, 0.0])
    both = jax.jit(
        lambda x: (elbo(model, q, x, how="quadrature") + variational_gap(model, q, x), model.log_evidence(x))
    )
    np.testing.assert_allclose(*both(x), atol=1e-9)


def test_sentences():
    model, q = LinearGaussian(*MODEL), DiagonalGaussian([0.3, -0.2], [0.5, 0.8])
    with pytest.raises(TypeError, match="needs the number of samples and a key"):
        elbo(model, q, X, how="sample")
    with pytest.raises(TypeError, match='how="closed" takes a LinearGaussian'):
        elbo(LatentModel(model.decoder, 2), q, X, how="closed")
    with pytest.raises(ValueError, match="how must be one of"):
        elbo(model, q, X, how="exact")
    with pytest.raises(TypeError, match="quadrature takes"):
        elbo(model, 1.0, X, how="quadrature")
    with pytest.raises(TypeError, match="model must be a LatentModel"):
        importance_bound(q, q, X, 10, key=jax.random.key(0))
