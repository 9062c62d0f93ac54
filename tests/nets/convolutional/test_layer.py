"""The convolutional layer with channels, in the ways in which it is computed."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets import convolutional as cv

RNG = np.random.default_rng(1)
KEY = jax.random.key(0)


def loops(x, kernel, bias, stride, padding):
    """Every sum of the layer with reversed kernels written out, in any number of dimensions."""
    outputs, channels, *window = kernel.shape
    padded = np.pad(x, [(0, 0)] + [(p, p) for p in padding])
    size = [(n - m) // s + 1 for n, m, s in zip(padded.shape[1:], window, stride, strict=True)]
    out = np.zeros((outputs, *size))
    for m in range(outputs):
        for i in np.ndindex(*size):
            out[m][i] = bias[m]
            for c, u in itertools.product(range(channels), np.ndindex(*window)):
                place = tuple(a * s + b for a, s, b in zip(i, stride, u, strict=True))
                turned = tuple(f - 1 - b for f, b in zip(window, u, strict=True))
                out[m][i] += padded[c][place] * kernel[m, c][turned]
    return out


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_all_ways_to_the_layer(axes):
    size, window = (5, 6, 7)[:axes], (2, 3, 2)[:axes]
    stride, padding = (2, 1, 3)[:axes], (1, 2, 0)[:axes]
    x, kernel, bias = RNG.normal(size=(2, *size)), RNG.normal(size=(3, 2, *window)), RNG.normal(size=3)
    wanted = loops(x, kernel, bias, stride, padding)
    np.testing.assert_allclose(
        cv.convolve_channels(x, kernel, bias, stride=stride, padding=padding), wanted, atol=1e-12
    )
    layer = eqx.nn.Conv(axes, 2, 3, window, stride, padding, key=KEY)
    turned = np.flip(kernel, range(2, kernel.ndim))
    layer = eqx.tree_at(
        lambda c: (c.weight, c.bias), layer, (jnp.asarray(turned), jnp.asarray(bias).reshape(-1, *[1] * axes))
    )
    np.testing.assert_allclose(layer(x), wanted, atol=1e-12)
    np.testing.assert_allclose(cv.fft_layer(layer, x), wanted, atol=1e-12)
    columns = np.asarray(cv.patches(x, window, stride=stride, padding=padding))
    product = turned.reshape(3, -1) @ columns + bias[:, None]
    np.testing.assert_allclose(product.reshape(wanted.shape), wanted, atol=1e-12)
    dense = np.asarray(cv.dense_matrix(layer, size)) @ x.ravel() + np.repeat(bias, wanted[0].size)
    np.testing.assert_allclose(dense.reshape(wanted.shape), wanted, atol=1e-12)
    np.testing.assert_array_equal(cv.flipped(layer).weight, kernel)


CONV = eqx.nn.Conv2d(1, 1, 2, key=KEY)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cv.convolve_channels(np.ones((2, 5)), np.ones((1, 3, 2))), "x must have shape"),
        (lambda: cv.convolve_channels(np.ones((2, 5)), np.ones((1, 3))), "kernel must have shape"),
        (lambda: cv.convolve_channels(np.ones((2, 5)), np.ones((1, 2, 6))), "kernel must fit into the padded image"),
        (lambda: cv.convolve_channels(np.ones((2, 5)), np.ones((1, 2, 3)), np.ones(2)), "bias must have shape"),
        (lambda: cv.convolve_channels(np.ones((2, 5)), np.ones((1, 2, 3)), padding=-1), "padding must be at least 0"),
        (lambda: cv.patches(np.ones((2, 5)), 6), "window must fit into the padded image"),
        (lambda: cv.patches(np.ones((2, 5)), (2, 2)), "window must be one number or one for each of 1 axes"),
        (lambda: cv.fft_layer(CONV, np.ones((2, 5, 5))), "x must have shape"),
        (
            lambda: cv.fft_layer(eqx.nn.Conv1d(1, 1, 2, dilation=2, key=KEY), np.ones((1, 5))),
            "layer must have dilation 1",
        ),
        (lambda: cv.flipped(jnp.sin), "layer must be an equinox.nn.Conv"),
        (lambda: cv.dense_matrix(eqx.nn.Conv1d(2, 2, 3, groups=2, key=KEY), 5), "layer must have one group"),
        (lambda: cv.dense_matrix(eqx.nn.Conv1d(1, 1, 3, padding="SAME", key=KEY), 5), "a number of zeros as padding"),
        (lambda: cv.dense_matrix(CONV, (5, 5, 5)), "size must be one number or one for each of 2 axes"),
        (lambda: cv.max_pool(np.float64(1), 2), "x must be an array with axes to pool over"),
        (lambda: cv.max_pool(np.ones(3), 4), "window must be no larger than x"),
        (lambda: cv.mean_pool(np.ones(3), (1, 1)), "window must have at most the 1 axes of x"),
        (lambda: cv.global_pool(np.ones(3)), "x must be an image of shape"),
        (lambda: cv.global_pool(np.ones((1, 3)), "sum"), "kind must be one of"),
        (lambda: cv.output_size(3, 5), "a window that spans 5 entries must fit into 3"),
        (lambda: cv.receptive_field([3]), "layers must be a sequence of pairs"),
        (lambda: cv.receptive_field([(3, 0)]), "stride must be at least 1"),
        (lambda: cv.convolution_weights(0, 1, 3), "inputs must be at least 1"),
        (lambda: cv.dense_weights(1, 1, (3, 3), (5, 5, 5)), "size must be one number or one for each of 2 axes"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
