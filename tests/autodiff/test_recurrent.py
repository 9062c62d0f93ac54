"""Recurrent networks, clipping, tied weights and the memory head."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from corollary.autodiff import (
    RNN,
    CircularConvolution,
    bptt_by_hand,
    clip_gradient,
    sequence_loss,
    tied_gradient,
    tied_matrix,
)
from corollary.nets.recurrent import LSTMCell, LSTMState, MemoryHead, address, read, write


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def case(steps=6):
    keys = jax.random.split(jax.random.key(0), 3)
    return (
        RNN(2, 4, 3, key=keys[0]),
        jax.random.normal(keys[1], (steps, 2)),
        jax.random.normal(keys[2], (steps, 3)),
    )


def test_bptt_is_the_gradient():
    rnn, xs, ys = case()
    expected = ravel_pytree(jax.grad(sequence_loss)(rnn, xs, ys))[0]
    for window in (None, 6, 9):
        np.testing.assert_allclose(ravel_pytree(bptt_by_hand(rnn, xs, ys, window))[0], expected, atol=1e-14)


@pytest.mark.parametrize("window", [1, 2, 4])
def test_truncation_by_brute_force(window):
    rnn, xs, ys = case()
    states = rnn.hidden(xs)

    def loss_of(t, rnn):
        """The loss of one step, with the state `window` steps before held fixed."""
        first = max(t - window + 1, 0)
        h = jnp.zeros(4) if first == 0 else jax.lax.stop_gradient(states[first - 1])
        for s in range(first, t + 1):
            h = jnp.tanh(rnn.recurrent @ h + rnn.inputs @ xs[s] + rnn.bias)
        return jnp.sum((rnn.readout @ h + rnn.offset - ys[t]) ** 2) / (2 * 6)

    expected = jax.grad(lambda r: sum(loss_of(t, r) for t in range(6)))(rnn)
    np.testing.assert_allclose(
        ravel_pytree(bptt_by_hand(rnn, xs, ys, window))[0], ravel_pytree(expected)[0], atol=1e-14
    )


def test_outputs_of_a_network_by_hand():
    rnn, xs, _ = case(2)
    h1 = np.tanh(rnn.inputs @ xs[0])
    h2 = np.tanh(rnn.recurrent @ h1 + rnn.inputs @ xs[1])
    np.testing.assert_allclose(rnn(xs), np.stack([rnn.readout @ h1, rnn.readout @ h2]), rtol=1e-12)


def test_lstm_by_hand():
    cell = LSTMCell(1, 1, key=jax.random.key(0))
    state = LSTMState(jnp.array([0.2]), jnp.array([-0.5]))
    i, f, g, o = np.asarray(cell.inputs @ jnp.array([0.7]) + cell.recurrent @ state.hidden + cell.bias)
    s = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
    c = s(f) * -0.5 + s(i) * np.tanh(g)
    out = cell(state, jnp.array([0.7]))
    np.testing.assert_allclose([out.memory[0], out.hidden[0]], [c, s(o) * np.tanh(c)], rtol=1e-12)


def test_clip():
    tree = {"a": jnp.array([3.0, 0.0]), "b": jnp.array(4.0)}
    clipped = clip_gradient(tree, 1.0)
    np.testing.assert_allclose(ravel_pytree(clipped)[0], [0.6, 0.0, 0.8], rtol=1e-14)
    np.testing.assert_allclose(ravel_pytree(clip_gradient(tree, 10.0))[0], [3.0, 0.0, 4.0], rtol=0)
    np.testing.assert_allclose(clip_gradient(jnp.zeros(2), 1.0), 0.0)
    np.testing.assert_allclose(clip_gradient(jnp.array([3e200, 4e200]), 1.0), [0.6, 0.8], rtol=1e-14)
    assert clip_gradient(jnp.ones(3, jnp.float32), 1.0).dtype == jnp.float32


@pytest.mark.parametrize(("window", "size"), [((3,), (7,)), ((2, 3), (4, 5)), ((1, 1), (2, 2)), ((2, 2, 2), (3, 2, 4))])
def test_convolution_against_loops(window, size):
    layer = CircularConvolution(2, 3, window, key=jax.random.key(0))
    layer = eqx.tree_at(lambda c: c.bias, layer, jnp.array([0.1, -0.2, 0.3]))
    x = np.asarray(jax.random.normal(jax.random.key(1), (2, *size)))
    expected = np.zeros((3, *size))
    for o in range(3):
        for place in np.ndindex(size):
            total = float(layer.bias[o])
            for c in range(2):
                for shift in np.ndindex(window):
                    at = tuple((p + s) % n for p, s, n in zip(place, shift, size, strict=True))
                    total += float(layer.kernel[(o, c, *shift)]) * x[(c, *at)]
            expected[(o, *place)] = total
    np.testing.assert_allclose(layer(x), expected, atol=1e-13)
    dense = layer.dense(size) @ x.ravel() + np.repeat(layer.bias, int(np.prod(size)))
    np.testing.assert_allclose(dense, expected.ravel(), atol=1e-13)


def test_tied_matrix_and_gradient():
    pattern = np.array([[0, -1, 1], [1, 0, 0]])
    u = jnp.array([2.0, 3.0])
    np.testing.assert_allclose(tied_matrix(u, pattern), [[2, 0, 3], [3, 2, 2]])
    dense = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(tied_gradient(dense, pattern, 2), [0 + 4 + 5, 2 + 3])


def test_memory():
    memory = jnp.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    weights = address(memory, jnp.array([0.0, 5.0]), 2.0)
    np.testing.assert_allclose(weights, np.exp([0, 2, 0]) / (2 + np.exp(2)), rtol=1e-12)
    np.testing.assert_allclose(read(memory, weights), weights @ memory)
    after = write(memory, jnp.array([0.0, 1.0, 0.0]), jnp.array([1.0, 0.0]), jnp.array([7.0, 1.0]))
    np.testing.assert_allclose(after, [[1, 0], [7, 3], [0, 0]])
    slope = jax.grad(lambda m: jnp.sum(read(m, address(m, jnp.array([1.0, 1.0]), 3.0)) ** 2))(memory)
    assert np.isfinite(slope).all()
    head = MemoryHead(3, 2, key=jax.random.key(0))
    out = jax.jit(lambda m, s: head(m, s))(memory, jnp.ones(3))
    assert out.read.shape == (2,)
    assert out.memory.shape == (3, 2)
    np.testing.assert_allclose(out.weights.sum(), 1.0)
    np.testing.assert_allclose(out.read, out.weights @ memory, rtol=1e-12)


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (lambda: bptt_by_hand(*case(), window=0), "window must be at least 1"),
        (lambda: bptt_by_hand(case()[0], case()[1], jnp.ones((6, 2))), "targets must have shape"),
        (lambda: sequence_loss(case()[0], jnp.ones((6, 1)), jnp.ones((6, 3))), "xs must have shape"),
        (lambda: clip_gradient({}, 1.0), "at least one leaf"),
        (lambda: clip_gradient(jnp.ones(2), 0.0), "most must be positive"),
        (lambda: clip_gradient(jnp.array([np.inf]), 1.0), "gradient must be finite"),
        (lambda: CircularConvolution(1, 1, (), key=jax.random.key(0)), "window must have a length"),
        (
            lambda: CircularConvolution(1, 1, (3,), key=jax.random.key(0))(jnp.ones((1, 2))),
            "no smaller than the window",
        ),
        (lambda: CircularConvolution(1, 1, (3,), key=jax.random.key(0)).dense((2,)), "no shorter than"),
        (lambda: tied_matrix(jnp.ones(2), np.array([[2]])), "indices from -1 to 1"),
        (lambda: tied_matrix(jnp.ones(2), np.array([[0.5]])), "matrix of integers"),
        (lambda: tied_gradient(jnp.ones((2, 2)), np.array([[0]]), 1), "like pattern"),
        (lambda: address(jnp.ones((3, 2)), jnp.ones(3), 1.0), "key must have shape"),
        (lambda: address(jnp.ones((3, 2)), jnp.ones(2), -1.0), "sharpness must be zero or more"),
        (lambda: write(jnp.ones((3, 2)), jnp.ones(3), 2 * jnp.ones(2), jnp.ones(2)), r"erase must be in \[0, 1\]"),
        (lambda: RNN(0, 1, 1, key=jax.random.key(0)), "inputs must be at least 1"),
    ],
)
def test_sentences(action, sentence):
    with pytest.raises(ValueError, match=sentence):
        action()
