"""Layered networks, blocks, chains and the worked examples against jax.grad and finite differences."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from corollary.autodiff import (
    ACTIVATION_PAIRS,
    LOSSES,
    ChainModel,
    Layer,
    TwoLayer221,
    WorkedMLP,
    backprop_221,
    backprop_columns,
    backprop_rows,
    block_backprop,
    chain_cost,
    composition_cost,
    dense_block,
    forward_mode,
    forward_pass,
    jacobian_chain,
    layered_backprop,
    mlp_gradient,
    multiplications,
    one_neuron,
    random_layers,
    reverse_mode,
    scalar_chain,
    sgd_step,
)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", ACTIVATION_PAIRS)
def test_slopes_of_activations(name):
    value, slope = ACTIVATION_PAIRS[name]
    z = jnp.array([-30.0, -1.3, -0.2, 0.4, 2.0, 30.0])
    np.testing.assert_allclose(slope(z), jax.vmap(jax.grad(lambda z: jnp.sum(value(z))))(z), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("widths", [[3, 2], [2, 4, 3], [3, 5, 1, 4]])
def test_layered_backprop(loss, widths):
    layers = random_layers(jax.random.key(0), widths)
    x, y = jnp.linspace(-1, 1, widths[0]), jnp.arange(widths[-1]) % 2.0
    value = lambda p: LOSSES[loss][0](forward_pass(p, x).post[-1], y)  # noqa: E731
    ours, theirs = layered_backprop(layers, x, y, loss=loss).gradient, jax.grad(value)(layers)
    np.testing.assert_allclose(ravel_pytree(ours)[0], ravel_pytree(theirs)[0], rtol=1e-11, atol=1e-14)


def test_backprop_against_finite_differences():
    layers = random_layers(jax.random.key(1), [2, 3, 2])
    x, y, h = jnp.array([0.5, -1.0]), jnp.array([1.0, 0.0]), 1e-6
    flat, back = ravel_pytree(layers)
    value = lambda t: LOSSES["squared"][0](forward_pass(back(t), x, ["tanh", "linear"]).post[-1], y)  # noqa: E731
    differences = [(value(flat + h * e) - value(flat - h * e)) / (2 * h) for e in jnp.eye(flat.size)]
    ours = ravel_pytree(layered_backprop(layers, x, y, ["tanh", "linear"]).gradient)[0]
    np.testing.assert_allclose(ours, differences, atol=1e-9)


def test_rows_and_columns():
    layers = random_layers(jax.random.key(2), [3, 4, 2])
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


def test_worked_examples():
    x, y = jnp.array([0.4, -0.8]), 0.3
    net = TwoLayer221("tanh", key=jax.random.key(0))
    expected = jax.grad(lambda n: (y - n(x)) ** 2 / 2)(net)
    np.testing.assert_allclose(ravel_pytree(net.backprop(x, y))[0], ravel_pytree(expected)[0], rtol=1e-12)
    out = backprop_221(net.w1, net.w2, x, y)
    by_w, by_v = jax.grad(lambda w, v: backprop_221(w, v, x, y).loss, (0, 1))(net.w1, net.w2)
    np.testing.assert_allclose(out.by_w, by_w, rtol=1e-12)
    np.testing.assert_allclose(out.by_v, by_v, rtol=1e-12)
    neuron = one_neuron(x, y, 1.5, jnp.array([1.0, 2.0]), "softplus")
    by_w = jax.grad(lambda w: one_neuron(x, y, 1.5, w, "softplus").loss)(jnp.array([1.0, 2.0]))
    np.testing.assert_allclose(neuron.by_w, by_w, rtol=1e-12)
    model = WorkedMLP(2, 3, key=jax.random.key(1))
    expected = jax.grad(lambda m: (m(x) - y) ** 2 / 2)(model)
    np.testing.assert_allclose(ravel_pytree(mlp_gradient(model, x, y))[0], ravel_pytree(expected)[0], rtol=1e-12)
    moved = sgd_step(model, x, y, 0.1)
    np.testing.assert_allclose(moved.beta, model.beta - 0.1 * expected.beta, rtol=1e-12)
    assert (moved(x) - y) ** 2 < (model(x) - y) ** 2


def test_scalar_chain():
    head = (lambda h: h**2, lambda h: 2 * h)
    pairs = [ACTIVATION_PAIRS["tanh"], ACTIVATION_PAIRS["sine"]]
    w, b = jnp.array([0.5, 1.2]), jnp.array([0.1, -0.3])
    out = scalar_chain(0.7, w, b, pairs, head)
    by_w, by_b = jax.grad(lambda w, b: scalar_chain(0.7, w, b, pairs, head).output, (0, 1))(w, b)
    np.testing.assert_allclose(out.by_weights, by_w, rtol=1e-12)
    np.testing.assert_allclose(out.by_biases, by_b, rtol=1e-12)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_chain_modes_and_their_cost(depth):
    chain, x, slope = ChainModel(depth, 3, 2, key=jax.random.key(0)), jnp.array([0.5, -1.0]), jnp.ones((2, 3))
    expected = jax.jacobian(lambda c: slope @ c(x))(chain)
    for mode, run in (("reverse", reverse_mode), ("forward", forward_mode)):
        ours = run(chain, x, slope)
        np.testing.assert_allclose(ours.hidden, expected.hidden, atol=1e-14)
        np.testing.assert_allclose(ours.inputs, expected.inputs, atol=1e-14)
        both = multiplications(lambda c, run=run: run(c, x, slope), chain)
        alone = multiplications(lambda c: c.states(x), chain)
        assert both - alone == chain_cost(depth, 3, 2, 2, mode)


def test_multiplications():
    a, b, v = jnp.ones((3, 4)), jnp.ones((4, 5)), jnp.ones(4)
    assert multiplications(lambda a, b: a @ b, a, b) == 60
    assert multiplications(jax.jit(lambda a, v: a @ v), a, v) == 12
    assert multiplications(lambda b: jax.lax.scan(lambda h, _: (b[:, :4] @ h, None), v, length=7)[0], b) == 7 * 16
    assert multiplications(lambda b: jax.lax.cond(True, lambda: (a @ b).sum(), lambda: 0.0), b) == 60
    assert multiplications(jax.vmap(lambda x: a @ x), jnp.ones((6, 4))) == 72
    assert multiplications(lambda a: a * a, a) == 0
    matrices = [jnp.ones((4, 6)), jnp.ones((4, 4)), jnp.ones((2, 4))]
    for mode in ("forward", "reverse"):
        assert multiplications(lambda *m, mode=mode: jacobian_chain(m, mode), *matrices) == composition_cost(
            3, 4, 2, 6, mode
        )


def test_blocks_jit_and_shapes():
    params = [(jnp.ones((3, 2)), jnp.zeros(3)), (jnp.ones((1, 3)), jnp.zeros(1))]
    run = jax.jit(
        lambda p: block_backprop([dense_block(), dense_block("linear")], p, jnp.ones(2), jnp.ones_like).params
    )
    shapes = jax.tree.map(jnp.shape, run(params))
    assert shapes == (((3, 2), (3,)), ((1, 3), (1,)))


LAYERS = [Layer(jnp.ones((2, 3)), jnp.zeros(3))]


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (lambda: layered_backprop([], jnp.ones(2), jnp.ones(3)), "at least one pair"),
        (lambda: layered_backprop(LAYERS, jnp.ones(3), jnp.ones(3)), r"x must have shape \(2,\)"),
        (lambda: layered_backprop(LAYERS, jnp.ones(2), jnp.ones(2)), r"y must have shape \(3,\)"),
        (lambda: layered_backprop(LAYERS * 2, jnp.ones(2), jnp.ones(3)), "weights of layer 2 must have shape"),
        (lambda: layered_backprop(LAYERS, jnp.ones(2), jnp.ones(3), ["tanh"] * 2), "activations must name one"),
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
        (lambda: random_layers(jax.random.key(0), [2]), "widths must name"),
        (lambda: block_backprop([dense_block()], [], jnp.ones(2), jnp.ones_like), "of one length"),
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
        (lambda: sgd_step(WorkedMLP(1, 1, key=jax.random.key(0)), [1.0], 1.0, 0.0), "eta must be positive"),
        (lambda: scalar_chain(1.0, [1.0], [0.0], [], None), "activations must hold 1 pairs"),
    ],
)
def test_sentences(action, sentence):
    with pytest.raises(ValueError, match=sentence):
        action()


def test_modules_are_frozen():
    net = TwoLayer221(key=jax.random.key(0))
    with pytest.raises(AttributeError):
        net.w1 = 0
    assert isinstance(net, eqx.Module)
