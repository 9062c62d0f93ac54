import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets import (
    FeedForward,
    HyperParameters,
    book_feedforward,
    identity,
    logistic,
    parameter_count,
    relu,
    tanh,
)

KEY = jax.random.key(0)


def test_book_network_against_numpy_by_hand():
    x = np.random.default_rng(0).normal(size=(50, 2)) * 2
    w1, b1 = np.array([[1, -3], [2, 4], [-6, 0]]), np.array([-2, 0, -1])
    w2, b2 = np.array([[-1, -2, 0], [6, 7, -1], [5, 6, -2], [0, 1, -2]]), np.array([4, 1, -2, 3])
    before = np.tanh(np.tanh(x @ w1.T + b1) @ w2.T + b2) @ np.array([5, -1, 1, 0])
    for last in (6.0, -10.0):
        np.testing.assert_allclose(jax.vmap(book_feedforward(last))(x)[:, 0], np.maximum(before + last, 0), rtol=1e-12)
    assert (before < 10).any()  # with -10 ReLU acts
    assert (before > 1.8).all()  # with 6 it never does


def test_golden_values():
    points = np.array([[0, 0], [1, 1], [1, -1], [-1, 2], [-1, -1]], float)
    golden = [10.998921187856604, 10.743115183588827, 9.477150720656265, 9.218625052326598, 10.999936895714002]
    np.testing.assert_allclose(jax.vmap(book_feedforward())(points)[:, 0], golden, rtol=1e-14)


def test_count_and_last_activation():
    net = FeedForward((2, 3, 4, 1), (tanh, tanh, relu), key=KEY)
    assert parameter_count(net) == 30
    x = np.random.default_rng(1).normal(size=(200, 2))
    last = jax.vmap(FeedForward((2, 3, 2), logistic, key=KEY))(x)
    assert last.shape == (200, 2)
    assert 0 < last.min() < last.max() < 1


def test_of_keeps_the_dtype_and_works_under_transformations():
    net = FeedForward.of([(np.ones((3, 2), np.float32), np.zeros(3, np.float32))], tanh)
    assert net(np.ones(2, np.float32)).dtype == jnp.float32
    value = jax.jit(lambda w: FeedForward.of([(w, jnp.zeros(2))], identity)(jnp.ones(2)).sum())
    np.testing.assert_allclose(jax.grad(value)(jnp.eye(2)), np.ones((2, 2)))


def test_hyperparameters():
    chosen = HyperParameters((3, 4), (tanh, tanh, relu))
    assert chosen.depth == 2
    assert chosen.parameters(2, 1) == parameter_count(chosen.build(2, 1, key=KEY)) == 30
    assert HyperParameters((5,), tanh).activations == (tanh, tanh)
    assert hash(chosen) == hash(HyperParameters([3, 4], (tanh, tanh, relu)))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: FeedForward(3, tanh, key=KEY), "sizes must be a sequence"),
        (lambda: FeedForward((2, 0), tanh, key=KEY), "sizes must be at least 1"),
        (
            lambda: FeedForward((2, 3, 1), (tanh,), key=KEY),
            "activations must be a single one or one per layer, 2 in all, got 1",
        ),
        (lambda: FeedForward((2, 1), "tanh", key=KEY), "activations must be one function"),
        (lambda: FeedForward.of([], tanh), "params must be a sequence of pairs"),
        (lambda: FeedForward.of([(np.eye(2), np.zeros(3))], tanh), "B1 must have shape"),
        (lambda: FeedForward.of([(np.eye(2), np.zeros(2)), (np.ones((1, 3)), [0.0])], tanh), "W2 must have shape"),
        (lambda: FeedForward.of([(np.full((1, 1), np.nan), [0.0])], tanh), "W1 must be finite"),
        (lambda: FeedForward((2, 1), tanh, key=KEY)(np.ones(3)), "x must have shape"),
        (lambda: HyperParameters((0,), tanh), "widths must be at least 1"),
        (lambda: HyperParameters((2,), (tanh,)), "activations must be a single one or one per layer"),
        (lambda: HyperParameters((2,), tanh).parameters(0, 1), "inputs must be at least 1"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
