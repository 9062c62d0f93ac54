"""The seven elements filled in three ways, against the same networks written directly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.linear import perceptron_path
from corollary.memory import (
    ConnectionistModel,
    connectionist_hopfield,
    connectionist_mlp,
    connectionist_perceptron,
    layer_schedule,
)


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


def test_schedule_runs_through_the_layers():
    rows = [[0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0, 1]]
    np.testing.assert_array_equal(layer_schedule(2, 3, 1), np.array(rows, bool))


def test_perceptron():
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, size=(12, 2)).astype(float)
    y = np.where(x @ np.array([1.0, -2.0]) + 0.5 > 0, 1.0, -1.0)
    model = connectionist_perceptron(2).learn(x, y, layer_schedule(2, 1))
    path = perceptron_path(x, y, updates=12)
    first_sweep = int((np.asarray(path.clock) < 12).sum() - (np.asarray(path.clock) < 0).sum())
    np.testing.assert_array_equal(model.weights[3, :2], path.w[first_sweep])
    assert float(model.weights[3, 2]) == float(path.b[first_sweep])
    assert not np.asarray(model.weights)[:3].any()


def test_hopfield():
    rng = np.random.default_rng(1)
    patterns, x = rng.choice([-1.0, 1.0], size=(3, 20)), rng.choice([-1.0, 1.0], size=20)
    order = rng.integers(0, 20, size=50)
    schedule = np.eye(21, dtype=bool)[order]
    model = connectionist_hopfield(20).learn(patterns, patterns, np.zeros((1, 21), bool))
    weights = patterns.T @ patterns / 20
    np.fill_diagonal(weights, 0)
    np.testing.assert_allclose(model.weights[:20, :20], weights, atol=1e-15)
    for i in order:
        x_i = weights[i] @ x
        x_after = x.copy()
        x_after[i] = 1.0 if x_i >= 0 else -1.0
        np.testing.assert_array_equal(model.settle(model.present(x), schedule[:0].reshape(0, 21))[:20], x)
        x = x_after
    start = rng.choice([-1.0, 1.0], size=20)
    by_hand = start.copy()
    for i in order:
        by_hand[i] = 1.0 if weights[i] @ by_hand >= 0 else -1.0
    np.testing.assert_array_equal(model.settle(model.present(start), schedule)[:20], by_hand)


def test_multilayer_network():
    rng = np.random.default_rng(2)
    w1, b1, w2, b2 = (rng.normal(size=s) for s in [(4, 3), (4,), (2, 4), (2,)])
    x, y = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    model = connectionist_mlp(w1, b1, w2, b2, step=0.1)
    schedule = layer_schedule(3, 4, 2)
    out = model.settle(model.present(x[0]), schedule)[-2:]
    np.testing.assert_allclose(out, w2 @ np.tanh(w1 @ x[0] + b1) + b2)
    learned = model.learn(x, y, schedule)
    for a, t in zip(x, y, strict=True):  # backpropagation by hand
        h = np.tanh(w1 @ a + b1)
        delta = w2 @ h + b2 - t
        below = (w2.T @ delta) * (1 - h**2)
        w2, b2 = w2 - 0.1 * np.outer(delta, h), b2 - 0.1 * delta
        w1, b1 = w1 - 0.1 * np.outer(below, a), b1 - 0.1 * below
    np.testing.assert_allclose(learned.weights[4:8, :3], w1, rtol=1e-12)
    np.testing.assert_allclose(learned.weights[4:8, 3], b1, rtol=1e-12)
    np.testing.assert_allclose(learned.weights[8:, 4:8], w2, rtol=1e-12)
    np.testing.assert_allclose(learned.weights[8:, 3], b2, rtol=1e-12)
    assert not np.asarray(learned.weights)[8:, :3].any()


def _model(**changes):
    given = {"inputs": 1, "output": abs, "propagate": abs, "activate": abs, "rule": abs, "environment": abs}
    return ConnectionistModel(jnp.zeros((3, 3)), jnp.zeros((3, 3), bool), **(given | changes))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: _model(rule=3), "rule must be a function, got int."),
        (lambda: _model(inputs=3), "inputs must be from 1 to 2, got 3."),
        (
            lambda: ConnectionistModel(
                jnp.zeros((2, 2)), jnp.ones((2, 2)), inputs=1, output=1, propagate=1, activate=1, rule=1, environment=1
            ),
            "connections must be truth values of shape (2, 2) like weights.",
        ),
        (lambda: _model().present([1.0, 2.0]), "x must have shape (1,), got (2,)."),
        (
            lambda: _model().settle(jnp.zeros(3), [[1, 2]]),
            "schedule must be truth values of shape (steps, 3), got (1, 2).",
        ),
        (lambda: _model().step(jnp.zeros(2)), "state must have shape (3,), got (2,)."),
        (
            lambda: connectionist_perceptron(2).learn([[1.0, 2.0]], [1, 1], layer_schedule(2, 1)),
            "targets must have one",
        ),
        (lambda: connectionist_perceptron(0), "features must be at least 1, got 0."),
        (lambda: connectionist_hopfield(1), "n must be at least 2, got 1."),
        (
            lambda: connectionist_mlp([[1.0]], [1.0], [[1.0]], [1.0, 2.0], step=1.0),
            "b2 must have shape (k,) with k = 1",
        ),
        (lambda: connectionist_mlp([[1.0]], [1.0], [[1.0]], [1.0], step=0.0), "step must be positive, got 0.0."),
        (lambda: layer_schedule(2), "sizes must give the inputs and at least one layer, got 1 number(s)."),
    ],
)
def test_bad_input_gets_one_sentence(call, sentence):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert str(caught.value).startswith(sentence)
