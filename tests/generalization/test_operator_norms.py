"""Norms of linear layers against the singular values of matrices that are filled entry by entry."""

from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from corollary import Network
from corollary.generalization import operator_norms, stable_ranks
from corollary.generalization._linear_maps import Convolution, _above, _size, matrix_size

KEY = jax.random.key(0)
# inputs, outputs, size, window, strides, padding, dilation of the input, dilation of the kernel, groups
CASES = {
    "plain": (2, 3, (6, 5), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1),
    "valid": (3, 2, (6, 6), (2, 4), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1),
    "stride": (2, 3, (7, 6), (3, 3), (2, 3), ((1, 1), (0, 1)), (1, 1), (1, 1), 1),
    "stride beyond the window": (2, 2, (8, 7), (2, 1), (3, 2), ((0, 0), (0, 0)), (1, 1), (1, 1), 1),
    "dilation": (2, 2, (9, 8), (3, 2), (1, 2), ((2, 2), (0, 3)), (1, 1), (2, 3), 1),
    "groups": (4, 6, (5, 5), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 2),
    "one group per channel": (4, 4, (6, 5), (3, 3), (2, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 4),
    "transposed": (2, 3, (5, 4), (3, 3), (1, 1), ((1, 1), (2, 1)), (2, 2), (1, 1), 1),
    "transposed, groups, dilation": (4, 2, (4, 4), (3, 2), (1, 1), ((2, 1), (1, 2)), (2, 3), (2, 1), 2),
    "padding beyond the window": (2, 2, (4, 3), (2, 3), (1, 1), ((4, 3), (5, 2)), (1, 1), (1, 1), 1),
}


def dense(kernel, case):
    """The matrix of a convolution, by its definition."""
    inputs, outputs, size, window, strides, padding, spread, dilation, groups = case
    counts = [
        (t * (n - 1) + 1 + sum(p) - d * (w - 1) - 1) // s + 1
        for n, w, s, p, t, d in zip(size, window, strides, padding, spread, dilation, strict=True)
    ]
    matrix = np.zeros((outputs, *counts, inputs, *size))
    for group in range(groups):
        rows = slice(group * outputs // groups, (group + 1) * outputs // groups)
        columns = slice(group * inputs // groups, (group + 1) * inputs // groups)
        for place in product(*map(range, counts)):
            for tap in product(*map(range, window)):
                at = [
                    i * s + a * d - p[0] for i, s, a, d, p in zip(place, strides, tap, dilation, padding, strict=True)
                ]
                if all(u % t == 0 and 0 <= u // t < n for u, t, n in zip(at, spread, size, strict=True)):
                    i, j = (u // t for u, t in zip(at, spread, strict=True))
                    matrix[rows, *place, columns, i, j] += kernel[rows, :, *tap]
    return matrix.reshape(outputs * int(np.prod(counts)), -1)


def layer(case):
    _, _, _, _, strides, padding, spread, dilation, groups = case
    numbers = ("NCHW", "OIHW", "NCHW")

    def apply(kernel, x):
        return lax.conv_general_dilated(x[None], kernel, strides, padding, spread, dilation, numbers, groups)[0]

    return apply


@pytest.mark.parametrize("name", CASES)
def test_fifty_random_convolutions_have_the_norm_of_their_matrix(name):
    case, rng = CASES[name], np.random.default_rng(sorted(CASES).index(name))
    apply, shape = layer(case), (case[0], *case[2])
    for _ in range(5):
        kernel = rng.normal(size=(case[1], case[0] // case[8], *case[3]))
        (found,) = operator_norms(Network(apply, kernel), shape)
        s = np.linalg.svd(dense(kernel, case), compute_uv=False)
        assert found.lower <= found.upper
        np.testing.assert_allclose([found.lower, found.upper], s[0], rtol=1e-6)
        np.testing.assert_allclose(found.frobenius, np.linalg.norm(s), rtol=1e-12)


@pytest.mark.parametrize("name", ["stride", "dilation", "transposed, groups, dilation"])
def test_large_convolutions_are_between_lanczos_and_the_torus(name, monkeypatch):
    monkeypatch.setattr("corollary.generalization._linear_maps.FEW", 0)
    case, rng = CASES[name], np.random.default_rng(1)
    inputs, outputs, size, window, strides, padding, spread, dilation, groups = case
    shape, weight = (1, inputs, *size), (outputs, inputs // groups, *window)
    numbers = lax.conv_dimension_numbers(shape, weight, ("NCHW", "OIHW", "NCHW"))
    conv = Convolution(strides, padding, spread, dilation, numbers, groups, 1)

    @jax.jit
    def measure(kernel):
        return _size(lambda x: conv(x, kernel), shape, kernel.dtype, KEY, *_above(kernel, conv, shape))

    for _ in range(5):
        kernel = rng.normal(size=weight)
        found, exact = measure(kernel), np.linalg.norm(dense(kernel, case), 2)
        np.testing.assert_allclose(found.lower, exact, rtol=1e-6)
        # an image of a few pixels is mostly edge: there the torus is off by a half at most
        assert exact * (1 - 1e-12) <= found.upper <= 1.5 * exact


def test_the_average_of_three_by_three():
    kernel = jnp.full((1, 1, 3, 3), 1 / 9)
    norms = []
    for mode in ("ZEROS", "CIRCULAR"):
        conv = eqx.nn.Conv2d(1, 1, 3, padding=1, padding_mode=mode, key=KEY)
        (found,) = operator_norms(eqx.tree_at(lambda c: c.weight, conv, kernel), (1, 14, 14))
        assert found.inputs == found.outputs == (14, 14)
        norms.append(float(found.upper))
    # along each axis the average of three of 14 pixels has the eigenvalue (1 + 2 cos(π/15))/3
    np.testing.assert_allclose(norms, [((1 + 2 * np.cos(np.pi / 15)) / 3) ** 2, 1.0], rtol=1e-10)
    assert round(norms[0], 3) == 0.971
    np.testing.assert_allclose(np.linalg.norm(np.asarray(kernel).reshape(1, 9), 2), 1 / 3)


def test_layers_of_any_network_are_found_by_name():
    network = eqx.nn.Sequential(
        [
            eqx.nn.ConvTranspose2d(1, 2, 3, stride=2, key=KEY),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(2 * 9 * 9, 3, key=KEY),
        ]
    )
    first, last = operator_norms(network, (1, 4, 4))
    assert (first.name, first.kind, last.name, last.kind) == (
        "layers.0.weight",
        "convolution",
        "layers.3.weight",
        "dense",
    )
    jacobian = jax.jacobian(network.layers[0])(jnp.zeros((1, 4, 4))).reshape(162, 16)
    np.testing.assert_allclose(first.upper, np.linalg.norm(jacobian, 2), rtol=1e-10)
    np.testing.assert_allclose(last.lower, np.linalg.norm(network.layers[3].weight, 2), rtol=1e-10)
    assert last.outputs == (3,)


def test_heads_and_places_share_one_matrix():
    weights = jax.random.normal(KEY, (2, 3, 4))
    network = Network(lambda w, x: jnp.einsum("hij,tj->thi", w, x), weights)
    (found,) = operator_norms(network, (5, 4))
    # the product takes the heads for further rows
    np.testing.assert_allclose(found.upper, np.linalg.norm(np.asarray(weights).reshape(6, 4), 2), rtol=1e-10)


def test_large_matrices_are_between_lanczos_and_schatten(monkeypatch):
    monkeypatch.setattr("corollary.generalization._linear_maps.FEW", 4)
    a = jax.random.normal(KEY, (2, 40, 50))
    found = matrix_size(a, KEY)
    exact = max(np.linalg.norm(np.asarray(one), 2) for one in a)
    np.testing.assert_allclose(found.lower, exact, rtol=1e-4)
    assert exact <= found.upper <= exact * 40 ** (1 / 32)
    np.testing.assert_allclose(found.frobenius, np.linalg.norm(a), rtol=1e-12)


def test_stable_ranks():
    s = np.array([3.0, 2.0, 1.0])
    q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))
    (found,) = stable_ranks(Network(lambda w, x: w @ x, q * s), (3,))
    np.testing.assert_allclose([found.lower, found.upper], 14 / 9, rtol=1e-12)
    (nothing,) = stable_ranks(Network(lambda w, x: w @ x, jnp.zeros((3, 3))), 3)
    assert nothing.lower == nothing.upper == 0


def test_norms_inside_a_compiled_program():
    value = jax.jit(lambda w: operator_norms(Network(lambda w, x: w @ x, w), (3,))[0].upper)
    np.testing.assert_allclose(value(2 * jnp.eye(3)), 2.0, rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda net: operator_norms(net, None), "shape must be that of one input, such as .3, 32, 32., got None"),
        (lambda net: operator_norms(net, (0, 3)), "shape must hold positive whole numbers"),
        (lambda net: operator_norms(net, "large"), "shape must be a tuple of sizes or a pytree"),
        (lambda net: operator_norms(net, (7,)), "network.x. failed for one example of shape .7,."),
        (lambda net: operator_norms(3.0, (3,)), "network must be callable"),
        (lambda net: operator_norms(Network(lambda w, x: w + x, jnp.ones(3)), 3), "no such layer was found"),
        (lambda net: stable_ranks(net, None), "shape must be that of one input"),
    ],
)
def test_bad_input_is_one_sentence(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call(eqx.nn.Conv2d(3, 2, 3, key=KEY))
