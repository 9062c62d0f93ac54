"""Layers of an `Architecture`: each knows its finite form, and what it does to covariances as the widths grow."""

import jax
import numpy as np

from corollary.kernels import Activation, Architecture, Conv, Dense, Flatten, GlobalAveragePool, Residual, ntk

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(3, 5)), RNG.normal(size=(4, 5))
IMAGES, OTHERS = RNG.normal(size=(2, 5, 4, 3)), RNG.normal(size=(3, 5, 4, 3))
KEY = jax.random.key(0)


def test_residual_adds_the_branch():
    branch = (Activation("relu"), Dense(6, 0.5, 0.1))
    network = Architecture([Dense(6), Residual(branch), Dense(1)])
    plain = Architecture([Dense(6), *branch])
    params = network.init((5,), key=KEY).params
    hidden = Architecture([Dense(6)]).apply(params[:1], X)
    inside = 0.5 * np.maximum(hidden, 0) @ params[1][1]["weight"] / np.sqrt(6) + 0.1 * params[1][1]["bias"]
    expected = np.sqrt(2) * (hidden + inside) @ params[2]["weight"] / np.sqrt(6)
    np.testing.assert_allclose(network.apply(params, X), expected, rtol=1e-12)
    stem = Architecture([Dense(6)])
    covariance = stem.nngp(X, Y) + plain.nngp(X, Y)
    np.testing.assert_allclose(network.nngp(X, Y), 2 * covariance, rtol=1e-12)
    tangent = stem.ntk(X, Y) + plain.ntk(X, Y)
    np.testing.assert_allclose(network.ntk(X, Y), 2 * tangent + 2 * covariance, rtol=1e-12)


def test_an_image_of_one_pixel_is_a_vector():
    x = RNG.normal(size=(4, 1, 1, 6))
    for end in (Flatten(), GlobalAveragePool()):
        network = Architecture([Conv(3, (1, 1), bias_std=0.2), Activation("relu")] * 2 + [end, Dense(1, bias_std=0.2)])
        np.testing.assert_allclose(network.ntk(x), ntk(x[:, 0, 0], depth=2, bias_std=0.2), rtol=1e-12)


def test_pooling_with_circular_padding_does_not_see_shifts():
    network = Architecture(
        [
            Conv(3, (3, 3), padding="CIRCULAR"),
            Activation("relu"),
            Conv(3, (2, 2), padding="CIRCULAR"),
            GlobalAveragePool(),
        ]
    )
    shifted = np.roll(OTHERS, (2, 1), axis=(1, 2))
    np.testing.assert_allclose(network.ntk(IMAGES, OTHERS), network.ntk(IMAGES, shifted), rtol=1e-12)
    flat = Architecture([*network.layers[:-1], Flatten()])
    assert np.abs(np.asarray(flat.ntk(IMAGES, OTHERS) - flat.ntk(IMAGES, shifted))).max() > 1e-2
