"""Recurrent networks, clipping, tied weights and the memory head."""

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
from corollary.nets.recurrent import address, write


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


def test_clip():
    tree = {"a": jnp.array([3.0, 0.0]), "b": jnp.array(4.0)}
    clipped = clip_gradient(tree, 1.0)
    np.testing.assert_allclose(ravel_pytree(clipped)[0], [0.6, 0.0, 0.8], rtol=1e-14)
    np.testing.assert_allclose(ravel_pytree(clip_gradient(tree, 10.0))[0], [3.0, 0.0, 4.0], rtol=0)
    np.testing.assert_allclose(clip_gradient(jnp.zeros(2), 1.0), 0.0)
    np.testing.assert_allclose(clip_gradient(jnp.array([3e200, 4e200]), 1.0), [0.6, 0.8], rtol=1e-14)
    assert clip_gradient(jnp.ones(3, jnp.float32), 1.0).dtype == jnp.float32


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
