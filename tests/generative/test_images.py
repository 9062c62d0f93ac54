"""Layers for images against dense Jacobians, and the bound of dequantisation against a sum over cells."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from corollary.generative import (
    AffineCoupling,
    FactorOut,
    Histogram,
    Inverted,
    Logit,
    NormalisingFlow,
    Squeeze,
    checkerboard_mask,
    dequantised,
)

KEY = jax.random.key(0)
IMAGE = np.random.default_rng(0).random((1, 4, 4))


@pytest.mark.parametrize("layer", [Squeeze(), Logit(), Logit(0.2), Histogram([5, 0, 2, 1], 1e-3)])
def test_layers_of_images(layer):
    def dense(x):
        return jax.jacfwd(lambda x: layer.forward(x)[0].ravel())(x).reshape(16, 16)

    out, log_det = layer.forward(IMAGE)
    np.testing.assert_allclose(layer.inverse(out), IMAGE, rtol=1e-9)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(np.asarray(dense(IMAGE)))[1], atol=1e-10)


def test_squeeze_keeps_squares_together():
    out, _ = Squeeze().forward(np.arange(16.0).reshape(1, 4, 4))
    np.testing.assert_array_equal(out[:, 0, 0], [0, 1, 4, 5])
    np.testing.assert_array_equal(out[:, 1, 1], [10, 11, 14, 15])


def test_checkerboard():
    mask = checkerboard_mask((2, 2, 3))
    np.testing.assert_array_equal(mask, [[[True, False, True], [False, True, False]]] * 2)


def test_a_flow_over_squeezed_images():
    coupling = AffineCoupling(checkerboard_mask((4, 2, 2)), lambda z: 0.1 * jnp.concatenate([jnp.sin(z.sum(0) + z), z]))
    flow = NormalisingFlow([Logit(), Squeeze(), coupling], (1, 4, 4))
    x = flow.sample(3, key=KEY)
    assert x.shape == (3, 1, 4, 4)
    np.testing.assert_allclose(flow.inverse(flow.forward(IMAGE)[0]), IMAGE, rtol=1e-10)


def test_dequantisation_bounds_the_probability_of_a_cell():
    """Density 2x on [0, 1]: the cell of grey value k of 4 has probability (2k + 1)/16."""
    keys = jax.random.split(KEY, 4000)
    x = np.arange(4)
    u = jax.vmap(lambda key: dequantised(x, levels=4, key=key))(keys)
    np.testing.assert_array_equal(np.floor(4 * np.asarray(u)), np.broadcast_to(x, u.shape))
    bound = np.asarray(jnp.log(2 * u)) - np.log(4)
    assert np.all(bound.mean(0) < np.log((2 * x + 1) / 16) - 0.001)
    # the exact mean of ln(2(k + u)/4) - ln 4 over u in [0, 1]
    edges = np.arange(5.0)
    whole = np.where(edges > 0, edges * np.log(np.maximum(edges, 1)) - edges, 0)
    exact = np.diff(whole) + np.log(2 / 4) - np.log(4)
    np.testing.assert_allclose(bound.mean(0), exact, atol=6 / np.sqrt(4000))


def test_sentences():
    with pytest.raises(ValueError, match="x must hold whole grey values from 0 to 255, got 0.5"):
        dequantised([0.5], key=KEY)
    with pytest.raises(ValueError, match="x must hold whole grey values from 0 to 3, got 4"):
        dequantised([4], levels=4, key=KEY)
    with pytest.raises(ValueError, match="height and width must be even to be squeezed, got 3 and 4"):
        Squeeze().forward(np.zeros((1, 3, 4)))
    with pytest.raises(ValueError, match="the number of channels must be a multiple of 4 to be unsqueezed, got 3"):
        Squeeze().inverse(np.zeros((3, 2, 2)))
    with pytest.raises(ValueError, match=r"shape must be channels, height and width, got \(4, 4\)"):
        checkerboard_mask((4, 4))
    with pytest.raises(ValueError, match=r"margin must be in \(0, 0.5\), got 0.0"):
        Logit(0.0)
    for x in (-0.06, 1.06, 255.0):
        with pytest.raises(ValueError, match=f"z must lie in .0, 1., or beyond it by less than 0.0556 .* got {x:g}"):
            Logit().forward([0.5, x])
    assert np.isfinite(Logit().forward([-0.05, 1.05])[0]).all()  # where a flow with this layer has samples


def test_a_histogram_makes_normal_numbers():
    counts, levels = np.array([80, 3, 7, 10]), 4
    x = np.random.default_rng(0).choice(levels, 20_000, p=counts / counts.sum())
    scores, _ = Histogram(10**6 * counts).forward(dequantised(x, levels=levels, key=KEY))
    assert stats.kstest(scores, "norm").pvalue > 1e-6
    for edge in (0.0, 1.0):  # the ends of the interval are finite
        assert np.isfinite(Histogram(counts).forward(np.array([edge]))[0]).all()


def test_half_of_the_channels_goes_on():
    coupling = AffineCoupling(np.arange(4).reshape(4, 1, 1) < 2, lambda z: jnp.concatenate([0.3 * z, z])[:, ::-1] + 0.2)
    layer = FactorOut([Squeeze(), coupling, Inverted(Squeeze())])
    z = np.random.default_rng(1).normal(size=(2, 2, 2))
    out, log_det = layer.forward(z)
    np.testing.assert_array_equal(out[1], z[1])
    jacobian = jax.jacfwd(lambda z: layer.forward(z)[0].ravel())(z).reshape(8, 8)
    assert float(log_det) == pytest.approx(np.linalg.slogdet(np.asarray(jacobian))[1])
    np.testing.assert_allclose(layer.inverse(out), z, rtol=1e-12)
    with pytest.raises(ValueError, match=r"the layers must bring back the shape \(1, 2, 2\)"):
        FactorOut([Squeeze()]).forward(z)
    with pytest.raises(ValueError, match="the number of channels must be even"):
        layer.forward(z[:1])
    with pytest.raises(TypeError, match="a layer of a flow has forward and inverse, got float"):
        FactorOut([1.0])
    with pytest.raises(ValueError, match="counts must be"):
        Histogram([1.0, -1.0])
