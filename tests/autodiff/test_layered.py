"""Layered networks, blocks, chains and the worked examples against jax.grad and finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from corollary.autodiff import (
    LOSSES,
    Layer,
    WorkedMLP,
    backprop_columns,
    backprop_rows,
    block_backprop,
    composition_cost,
    dense_block,
    forward_pass,
    jacobian_chain,
    layered_backprop,
    multiplications,
    random_layers,
    scalar_chain,
    sgd_step,
)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("widths", [[3, 2], [2, 4, 3], [3, 5, 1, 4]])
def test_layered_backprop(loss, widths):
    layers = random_layers(widths, key=jax.random.key(0))
    x, y = jnp.linspace(-1, 1, widths[0]), jnp.arange(widths[-1]) % 2.0
    value = lambda p: LOSSES[loss][0](forward_pass(p, x).post[-1], y)  # noqa: E731
    ours = jax.jit(lambda p: layered_backprop(p, x, y, loss=loss).gradient)(layers)
    theirs = jax.jit(jax.grad(value))(layers)
    np.testing.assert_allclose(ravel_pytree(ours)[0], ravel_pytree(theirs)[0], rtol=1e-11, atol=1e-14)


def test_backprop_against_finite_differences():
    layers = random_layers([2, 3, 2], key=jax.random.key(1))
    x, y, h = jnp.array([0.5, -1.0]), jnp.array([1.0, 0.0]), 1e-6
    flat, back = ravel_pytree(layers)
    value = lambda t: LOSSES["squared"][0](forward_pass(back(t), x, ["tanh", "linear"]).post[-1], y)  # noqa: E731
    differences = [(value(flat + h * e) - value(flat - h * e)) / (2 * h) for e in jnp.eye(flat.size)]
    ours = ravel_pytree(layered_backprop(layers, x, y, ["tanh", "linear"]).gradient)[0]
    np.testing.assert_allclose(ours, differences, atol=1e-9)


def test_rows_and_columns():
    layers = random_layers([3, 4, 2], key=jax.random.key(2))
    x, y = jax.random.normal(jax.random.key(3), (6, 3)), jax.random.normal(jax.random.key(4), (6, 2))
    single = [layered_backprop(layers, a, b, "tanh").gradient for a, b in zip(x, y, strict=True)]
    mean = jax.tree.map(lambda *g: sum(g) / 6, *single)
    rows = backprop_rows(layers, x, y, "tanh").gradient
    columns = backprop_columns([Layer(w.T, b) for w, b in layers], x.T, y.T, "tanh").gradient
    np.testing.assert_allclose(ravel_pytree(rows)[0], ravel_pytree(mean)[0], rtol=1e-12)
    turned = tuple(Layer(w.T, b) for w, b in columns)
    np.testing.assert_allclose(ravel_pytree(turned)[0], ravel_pytree(mean)[0], rtol=1e-12)
    count = multiplications(lambda p: backprop_rows(p, x, y).gradient, layers)
    assert count == 6 * (2 * (3 * 4 + 4 * 2) + 4 * 2)  # forward, parameters, and one step down


LAYERS = [Layer(jnp.ones((2, 3)), jnp.zeros(3))]


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (lambda: layered_backprop([], jnp.ones(2), jnp.ones(3)), "at least one pair"),
        (lambda: layered_backprop(LAYERS, jnp.ones(3), jnp.ones(3)), r"x must have shape \(2,\)"),
        (lambda: layered_backprop(LAYERS, jnp.ones(2), jnp.ones(2)), r"y must have shape \(3,\)"),
        (lambda: layered_backprop(LAYERS * 2, jnp.ones(2), jnp.ones(3)), "weights of layer 2 must have shape"),
        (
            lambda: layered_backprop(LAYERS, jnp.ones(2), jnp.ones(3), ["tanh"] * 2),
            "activations must hold one name per layer",
        ),
        (lambda: layered_backprop(LAYERS, jnp.ones(2), jnp.ones(3), "cosine"), "activation must be one of"),
        (lambda: layered_backprop(LAYERS, jnp.ones(2), jnp.ones(3), loss="zero"), "loss must be one of"),
        (lambda: backprop_columns(LAYERS, jnp.ones((2, 4)), jnp.ones((3, 4))), r"weights must have shape \(3, 2\)"),
        (
            lambda: backprop_columns([(jnp.ones((3, 2)), jnp.ones(3))], jnp.ones((1, 4)), jnp.ones((3, 4))),
            "outputs, inp",
        ),
        (
            lambda: backprop_columns([(jnp.ones((3, 2)), jnp.ones(3))], jnp.ones((2, 4)), jnp.ones((2, 4))),
            "y must have",
        ),
        (lambda: random_layers([2], key=jax.random.key(0)), "widths must hold"),
        (lambda: block_backprop([dense_block()], [], jnp.ones(2), jnp.ones_like), "have the same length"),
        (
            lambda: block_backprop([dense_block()], [(jnp.ones((1, 2)), 0.0)], jnp.ones(2), lambda h: jnp.ones(3)),
            "output_gradient must give",
        ),
        (lambda: jacobian_chain([], "forward"), "at least one matrix"),
        (lambda: jacobian_chain([jnp.ones((2, 3)), jnp.ones((2, 3))], "forward"), "must have 2 columns"),
        (lambda: jacobian_chain([jnp.ones((2, 3))], "sideways"), "mode must be one of"),
        (lambda: composition_cost(1, 2, 3, 4, "forward"), "depth must be at least 2"),
        (
            lambda: multiplications(lambda v: jax.lax.while_loop(lambda v: v < 3, lambda v: v + 1, v), 0),
            "cannot be counted",
        ),
        (lambda: sgd_step(WorkedMLP(1, 1, key=jax.random.key(0)), [1.0], 1.0, 0.0), "step must be positive"),
        (lambda: scalar_chain(1.0, [1.0], [0.0], [], None), "activations must hold 1 pairs"),
    ],
)
def test_sentences(action, sentence):
    with pytest.raises(ValueError, match=sentence):
        action()
