"""The perceptron against the algorithm written out in Python, and its losses against each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.linear import (
    hinge_loss,
    linear_margins,
    logistic_margin_loss,
    perceptron,
    perceptron_loss,
    perceptron_loss_gradients,
    perceptron_path,
    sampled_perceptron,
    single_sample_sgd,
    zero_one_loss,
)

XOR = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), np.array([1.0, 1.0, -1.0, -1.0])


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


def _by_hand(x, y, order, limit, step=1.0):
    """Algorithm 1 as printed: (w, b) after each update, mistakes on each point, sweeps."""
    w, b, path, counts, sweeps, mistake = np.zeros(x.shape[1]), 0.0, [], np.zeros(len(x), int), 0, True
    while mistake and len(path) < limit:
        mistake, sweeps = False, sweeps + 1
        for i in order:
            if np.sign(w @ x[i] + b) != y[i] and len(path) < limit:
                w, b, mistake = w + step * y[i] * x[i], b + step * y[i], True
                path.append((w, b, i))
                counts[i] += 1
    return w, b, path, counts, sweeps


@pytest.mark.parametrize("seed", range(6))
def test_against_the_algorithm_by_hand(seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, size=(20, 3)).astype(float)
    y = np.where(x @ rng.normal(size=3) + 0.5 > 0, 1.0, -1.0)
    order = rng.permutation(20)
    w, b, path, counts, sweeps = _by_hand(x, y, order, 5000, step=0.5)
    fit = perceptron(x, y, order=order, step=0.5)
    np.testing.assert_array_equal(fit.w, w)
    assert (float(fit.b), int(fit.updates), int(fit.sweeps)) == (b, len(path), sweeps)
    np.testing.assert_array_equal(fit.counts, counts)
    assert bool(fit.converged)
    trace = perceptron_path(x, y, order=order, step=0.5, updates=len(path) + 3)
    np.testing.assert_array_equal(trace.w[1 : len(path) + 1], [p[0] for p in path])
    np.testing.assert_array_equal(trace.b[1 : len(path) + 1], [p[1] for p in path])
    np.testing.assert_array_equal(trace.index, [p[2] for p in path] + [-1] * 3)
    np.testing.assert_array_equal(trace.w[-1], w)
    clock = np.asarray(trace.clock)[: len(path)]
    assert (np.diff(clock) > 0).all()
    np.testing.assert_array_equal(order[clock % 20], trace.index[: len(path)])


def test_xor_never_ends_and_the_limit_is_kept():
    fit = perceptron(*XOR, updates=1000)
    assert int(fit.updates) == 1000
    assert not bool(fit.converged)
    # by hand: three updates in the first sweep, then four in each, and the state after every sweep is the same
    path = perceptron_path(*XOR, updates=43)
    np.testing.assert_array_equal(path.w[3::4], np.broadcast_to([-1, -1], (11, 2)))
    np.testing.assert_array_equal(path.b[3::4], -np.ones(11))


def test_a_last_allowed_update_may_be_enough():
    fit = perceptron(np.eye(3), np.ones(3), bias=False, updates=3)
    assert (int(fit.updates), bool(fit.converged)) == (3, True)
    fit = perceptron(np.eye(3), np.ones(3), bias=False, updates=2)
    assert (int(fit.updates), bool(fit.converged)) == (2, False)
    fit = perceptron(np.eye(3), np.ones(3), bias=False, start=np.ones(3))
    assert (int(fit.updates), int(fit.sweeps), bool(fit.converged)) == (0, 1, True)


@pytest.mark.parametrize("at_zero", [0, 1])
def test_sampled_by_hand(at_zero):
    rng = np.random.default_rng(2)
    x, y = rng.integers(-2, 3, size=(8, 2)).astype(float), rng.choice([-1.0, 1.0], size=8)
    path = sampled_perceptron(x, y, steps=200, key=jax.random.key(3), at_zero=at_zero)
    w = np.zeros(2)
    for k, i in enumerate(np.asarray(path.index)):
        z = w @ x[i]
        wrong = (np.sign(z) if z != 0 else at_zero) != y[i]
        assert bool(path.mistake[k]) == wrong
        w = w + y[i] * x[i] * wrong
        np.testing.assert_array_equal(path.w[k + 1], w)


def test_sgd_by_hand_draws_the_points_of_the_sampled_perceptron():
    rng = np.random.default_rng(4)
    x, y, key = rng.normal(size=(9, 2)), rng.choice([-1.0, 1.0], size=9), jax.random.key(5)
    path = single_sample_sgd(lambda t, a, b: (t @ a - b) * a, jnp.ones(2), x, y, step=0.1, steps=30, key=key)
    index, theta = sampled_perceptron(x, y, steps=30, key=key).index, np.ones(2)
    for k, i in enumerate(np.asarray(index)):
        theta = theta - 0.1 * (theta @ x[i] - y[i]) * x[i]
        np.testing.assert_allclose(path[k + 1], theta, rtol=1e-12)


def test_vmap_over_data():
    x = jax.random.normal(jax.random.key(0), (5, 12, 2))
    y = jnp.sign(x[..., 0] + 0.2)
    many = jax.jit(jax.vmap(lambda x, y: perceptron(x, y)))(x, y)
    for k in range(5):
        assert int(perceptron(x[k], y[k]).updates) == int(many.updates[k])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: perceptron([[1.0], [2.0]], [1, 2]), "y must hold the labels -1 and 1, got 2 at index 1."),
        (lambda: perceptron([[1.0], [2.0]], [1, 1], order=[0, 0]), "order must name each of the 2 points once."),
        (lambda: perceptron([[1.0], [2.0]], [1, 1], order=[0, 2]), "order must hold labels from 0 to 1, got 2 at"),
        (lambda: perceptron([[1.0]], [1], step=0.0), "step must be positive, got 0.0."),
        (
            lambda: perceptron([[1.0]], [1], start=[1.0]),
            "start must have shape (2,), the weights and the bias, got (1,).",
        ),
        (lambda: perceptron([[1.0]], [1], updates=0), "updates must be at least 1, got 0."),
        (lambda: perceptron_path([[1.0]], [1], updates=2.0), "updates must be an integer, got 2.0."),
        (lambda: sampled_perceptron([[1.0]], [1], steps=1, key=jax.random.key(0), at_zero=2), "at_zero must be one of"),
        (
            lambda: single_sample_sgd(1, [0.0], [[1.0]], [1], step=1.0, steps=1, key=jax.random.key(0)),
            "gradient must be a function of theta and one point, got int.",
        ),
        (
            lambda: single_sample_sgd(lambda t, x, y: y, [0.0], [[1.0]], [1], step=1.0, steps=1, key=jax.random.key(0)),
            "gradient must return shape (1,) like start, got",
        ),
        (
            lambda: linear_margins([1.0], [[1.0]], [1]),
            "theta must have shape (2,), 1 weight(s) and the bias, got (1,).",
        ),
        (lambda: zero_one_loss([1.0, 1.0], [[1.0]], [1], at_zero=3), "at_zero must be one of 0, 1, got 3."),
        (lambda: perceptron_loss_gradients([1.0, 1.0], [[1.0]], [1], at_kink=3), "at_kink must be one of 0, 1, got 3."),
        (lambda: hinge_loss([1.0], width=0.0), "width must be positive, got 0.0."),
        (lambda: perceptron_loss([np.nan]), "margin must be finite, got nan at index 0."),
        (lambda: logistic_margin_loss([np.inf]), "margin must be finite, got inf at index 0."),
    ],
)
def test_bad_input_gets_one_sentence(call, sentence):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert str(caught.value).startswith(sentence)
