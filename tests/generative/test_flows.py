"""Layers and flows against dense Jacobians, PyTorch and SciPy, and one training through `nets.fit`."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from scipy import stats

from corollary import nets
from corollary.generative import (
    AdditiveCoupling,
    AffineCoupling,
    Inverted,
    Invertible1x1,
    NormalisingFlow,
    bits_per_dimension,
    flow_loss,
    half_mask,
)

KEY = jax.random.key(0)
MASK = np.array([True, False, True])
MATRIX = np.array([[1.0, 0.5, 0.0], [0.2, -1.0, 0.3], [0.0, 0.4, 2.0]])
WEIGHTS = 0.4 * np.random.default_rng(1).normal(size=(6, 3))
X = np.array([0.3, -1.2, 0.8])


def layers():
    """Made in double precision, inside a test."""
    return [
        AffineCoupling(MASK, lambda z: jnp.tanh(WEIGHTS @ z)),
        Invertible1x1(MATRIX),
        AdditiveCoupling(~MASK, lambda z: jnp.sin(WEIGHTS[:3] @ z)),
        Inverted(AffineCoupling(~MASK, lambda z: jnp.tanh(WEIGHTS[::-1] @ z))),
    ]


@pytest.mark.parametrize("which", range(4), ids=["affine", "matrix", "additive", "inverted"])
def test_determinants_and_inverses(which):
    layer = layers()[which]
    out, log_det, jacobian = jax.jit(lambda x: (*layer.forward(x), jax.jacfwd(lambda x: layer.forward(x)[0])(x)))(X)
    assert float(log_det) == pytest.approx(np.linalg.slogdet(jacobian)[1], abs=1e-12)
    np.testing.assert_allclose(layer.inverse(out), X, atol=1e-12)


def test_a_coupling_against_pytorch():
    w, x = torch.tensor(WEIGHTS), torch.tensor(X)
    kept = torch.where(torch.tensor(MASK), x, 0)
    r, s = torch.tanh(w @ kept).split(3)
    expected = torch.where(torch.tensor(MASK), x, x * torch.exp(r) + s)
    out, log_det = layers()[0].forward(X)
    np.testing.assert_allclose(out, expected, rtol=1e-12)
    assert float(log_det) == pytest.approx(float(r[1]))


def test_pixels_of_an_image_share_a_matrix():
    image = np.random.default_rng(2).normal(size=(3, 2, 2))
    layer = Invertible1x1(MATRIX)
    out, log_det = layer.forward(image)
    filters = torch.tensor(MATRIX)[:, :, None, None]
    np.testing.assert_allclose(out, torch.nn.functional.conv2d(torch.tensor(image)[None], filters)[0], rtol=1e-12)
    assert float(log_det) == pytest.approx(4 * np.log(abs(np.linalg.det(MATRIX))))
    np.testing.assert_allclose(layer.inverse(out), image, atol=1e-12)


def test_a_linear_flow_is_a_normal_law():
    flow = NormalisingFlow([Invertible1x1(MATRIX)], 3)
    law = stats.multivariate_normal(np.zeros(3), np.linalg.inv(MATRIX.T @ MATRIX))
    assert float(flow.log_prob(X)) == pytest.approx(law.logpdf(X))
    drawn = jax.jit(lambda key: flow.sample(4000, key=key))(KEY)
    assert drawn.dtype == flow.layers[0].matrix.dtype
    # a covariance of 4,000 samples, six standard errors of the largest entry
    np.testing.assert_allclose(np.cov(drawn.T), law.cov, atol=6 * 2**0.5 * law.cov.max() / 4000**0.5)
    assert stats.kstest(drawn[:, 0], stats.norm(scale=law.cov[0, 0] ** 0.5).cdf).pvalue > 1e-6


def test_training_raises_the_likelihood():
    h = jax.random.normal(KEY, (256, 2))
    x = jnp.stack([h[:, 0], h[:, 0] ** 2 + 0.3 * h[:, 1]], 1)  # a parabola: exact couplings exist
    mask = np.array([True, False])
    networks = [eqx.nn.MLP(2, 4, 16, 1, key=k, dtype=float) for k in jax.random.split(KEY)]
    flow = NormalisingFlow([AffineCoupling(mask, networks[0]), AffineCoupling(~mask, networks[1])], 2)
    run = nets.fit(flow, flow_loss(), x, optax.adam(0.02), steps=200, batch_size=128, key=KEY, progress=False)
    best = np.log(2 * np.pi) + 1 + np.log(0.3)
    assert run.losses[0] > best + 1
    assert abs(run.losses[-20:].mean() - best) < 0.3
    np.testing.assert_array_equal(run.network.layers[0].mask, mask)


def test_bits():
    # uniform noise on 256 grey values costs eight bits, and an interval of half the length one less
    np.testing.assert_allclose(bits_per_dimension([0.0, 10 * np.log(2.0)], 10), [8.0, 7.0])
    assert float(bits_per_dimension(stats.norm.logpdf(0.3), 1, levels=1)) == pytest.approx(
        -np.log2(stats.norm.pdf(0.3))
    )


def test_half_of_the_channels():
    np.testing.assert_array_equal(half_mask(4), [True, True, False, False])
    assert half_mask((2, 3, 3))[0].all()
    assert not half_mask((2, 3, 3))[1].any()


def test_sentences():
    with pytest.raises(ValueError, match="matrix must be invertible, got one of rank 1 for 2 channels"):
        Invertible1x1([[1.0, 2.0], [2.0, 4.0]])
    with pytest.raises(ValueError, match=r"matrix must have shape \(c, c\)"):
        Invertible1x1(jnp.ones((2, 3)))
    with pytest.raises(ValueError, match="number of channels must be even to be split in half, got 3"):
        half_mask((3, 4, 4))
    with pytest.raises(ValueError, match="z must have 3 channels"):
        Invertible1x1(MATRIX).forward(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="shape must be that of one example"):
        NormalisingFlow([], ())
    with pytest.raises(TypeError, match="a layer of a flow has forward and inverse, got int"):
        NormalisingFlow([3], 2)
    with pytest.raises(TypeError, match="mask must be an array of True and False"):
        AffineCoupling([1.0, 0.0], jnp.tanh)
    with pytest.raises(ValueError, match="mask must be true at some places"):
        AffineCoupling([True, True], jnp.tanh)
    with pytest.raises(TypeError, match="network must be a network of one example"):
        AdditiveCoupling([True, False], 3)
    with pytest.raises(ValueError, match=r"must return an array of shape \(4,\)"):
        AffineCoupling([True, False], jnp.tanh).forward([1.0, 2.0])
    with pytest.raises(ValueError, match="must return an array like the example"):
        AdditiveCoupling([True, False], lambda z: z[:1]).forward([1.0, 2.0])
    with pytest.raises(ValueError, match=r"x must be one example of shape \(3,\)"):
        NormalisingFlow(layers(), 3).log_prob([1.0])
