import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary.optimization import (
    Path,
    averaged,
    batch_gradient,
    best_iterate,
    inverse_power,
    inverse_time,
    least_squares_sum,
    minibatch,
    minimize,
    quadratic,
    random_iterate,
    sgd,
    step_decay,
    step_sizes,
)

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(12, 3)), RNG.normal(size=12)
KEY = jax.random.key(3)


def numpy_sgd(chosen, start, etas):
    theta, path = np.array(start), [np.array(start)]
    for batch, eta in zip(chosen, etas, strict=True):
        theta = theta - eta * X[batch].T @ (X[batch] @ theta - Y[batch]) / len(batch)
        path.append(theta)
    return np.array(path)


def test_with_replacement_is_the_oracle_of_a_finite_sum_and_the_loop_in_numpy():
    etas = inverse_time(1.0, 4.0)
    ours = minimize(least_squares_sum(X, Y), sgd(etas, batch_size=4), steps=30, key=KEY).theta
    theirs = minimize(least_squares_sum(X, Y, batch_size=4), optax.sgd(etas), steps=30, key=KEY).theta
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    chosen = [np.asarray(jax.random.randint(jax.random.fold_in(KEY, k), (4,), 0, 12)) for k in range(30)]
    np.testing.assert_allclose(ours, numpy_sgd(chosen, np.zeros(3), 1 / (4 + np.arange(1, 31))), rtol=1e-10)


def test_all_examples_without_replacement_is_gradient_descent():
    problem = least_squares_sum(X, Y)
    ours = minimize(problem, sgd(0.1, batch_size=12, sampling="without"), steps=20, key=KEY).theta
    plain = numpy_sgd([np.arange(12)] * 20, np.zeros(3), [0.1] * 20)
    np.testing.assert_allclose(ours, plain, rtol=1e-10)
    np.testing.assert_allclose(minimize(problem, sgd(0.1, batch_size=12, sampling="reshuffle"), steps=20).theta, plain)


@pytest.mark.parametrize("sampling", ["without", "reshuffle"])
def test_batches_hold_each_example_at_most_once(sampling):
    # gradients of f_i = theta e_i count what was seen; each step adds -1/batch where it was
    from corollary.optimization import finite_sum

    count = finite_sum(lambda theta, e: theta @ e, (np.eye(12),), np.zeros(12))
    steps = -4 * np.diff(minimize(count, sgd(1.0, batch_size=4, sampling=sampling), steps=9, key=KEY).theta, axis=0)
    np.testing.assert_allclose(np.sort(steps, axis=1), [[0.0] * 8 + [1.0] * 4] * 9, atol=1e-12)
    epochs = steps.reshape(3, 3, 12).sum(1)
    assert np.allclose(epochs, 1) == (sampling == "reshuffle")
    if sampling == "reshuffle":
        assert not np.allclose(steps[:3], steps[3:6])  # a new partition in every epoch


def test_reshuffling_works_for_many_keys_at_once():
    problem = least_squares_sum(X, Y)
    keys = jax.random.split(KEY, 4)
    many = jax.vmap(lambda k: minimize(problem, sgd(0.1, sampling="reshuffle"), steps=24, key=k).theta)(keys)
    one = minimize(problem, sgd(0.1, sampling="reshuffle"), steps=24, key=keys[2]).theta
    np.testing.assert_allclose(many[2], one, rtol=1e-12)


def test_batch_gradient():
    problem, theta = least_squares_sum(X, Y), jnp.arange(3.0)
    chosen = np.array([3, 3, 7])
    np.testing.assert_allclose(
        batch_gradient(problem, theta, chosen), X[chosen].T @ (X[chosen] @ np.arange(3.0) - Y[chosen]) / 3, rtol=1e-12
    )


def test_average_is_the_mean_of_the_iterates_without_the_start():
    problem = least_squares_sum(X, Y)
    path = minimize(problem, sgd(0.05), steps=40, key=KEY).theta
    mean = minimize(problem, averaged(sgd(0.05)), steps=40, key=KEY).theta
    np.testing.assert_allclose(mean[1:], np.cumsum(path[1:], axis=0) / np.arange(1, 41)[:, None], rtol=1e-12)
    np.testing.assert_allclose(minimize(problem, averaged(optax.sgd(0.05)), steps=40, key=KEY).theta, mean)


def test_best_and_random_iterate():
    path = minimize(quadratic(jnp.ones(1)), optax.sgd(2.5), steps=3)  # grows: the best is the start
    np.testing.assert_allclose(best_iterate(path), path.theta[0])
    drawn = jax.jit(jax.vmap(lambda k: random_iterate(path, key=k)))(jax.random.split(KEY, 300))
    values, counts = np.unique(np.asarray(drawn), return_counts=True)
    np.testing.assert_allclose(values, np.sort(np.asarray(path.theta[:-1]).ravel()))
    assert counts.min() > 60  # 100 expected, five standard deviations are 41


def test_precision_of_the_input_is_kept():
    problem = least_squares_sum(X.astype(np.float32), Y.astype(np.float32))
    for sampling in ("with", "without", "reshuffle"):
        assert minimize(problem, sgd(0.1, sampling=sampling), steps=3).theta.dtype == jnp.float32
    assert minimize(problem, averaged(sgd(0.1)), steps=3).theta.dtype == jnp.float32


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: minibatch(3), "transformation must be an Optax transformation, got int"),
        (lambda: sgd(0.1, batch_size=0), "batch_size must be at least 1"),
        (lambda: sgd(0.1, sampling="some"), "sampling must be one of"),
        (lambda: averaged(3), "method must be a Method"),
        (lambda: minimize(quadratic(jnp.ones(2)), sgd(0.1), steps=1), "problem must be a FiniteSum"),
        (
            lambda: minimize(least_squares_sum(X, Y), sgd(0.1, batch_size=13, sampling="without"), steps=1),
            "batch_size must be at most the number of examples 12",
        ),
        (
            lambda: minimize(least_squares_sum(X, Y), sgd(0.1, batch_size=5, sampling="reshuffle"), steps=1),
            "batch_size must divide the number of examples 12",
        ),
        (lambda: best_iterate(3), "path must be a Path"),
        (lambda: random_iterate(Path(jnp.ones(1), jnp.ones(1), jnp.ones(1)), key=KEY), "path must be a Path"),
        (lambda: inverse_time(0.0, 1.0), "c0 must be positive"),
        (lambda: inverse_power(-1.0), "first must be positive"),
        (lambda: step_decay(1.0, [3, 3]), "ends must increase"),
        (lambda: step_decay(1.0, [0]), r"ends\[0\] must be at least 1"),
        (lambda: step_sizes(lambda k: 1.0 - k, 4), "schedule must give positive step sizes"),
        (lambda: step_sizes(-1.0, 4), "schedule must be positive"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()


def test_every_batch_is_as_likely():
    problem = least_squares_sum(X[:4], Y[:4])
    path = jax.vmap(lambda k: minimize(problem, sgd(1.0, batch_size=2, sampling="without"), steps=1, key=k).theta[1])(
        jax.random.split(KEY, 1200)
    )
    pairs = np.array([X[list(p)].T @ Y[list(p)] / 2 for p in itertools.combinations(range(4), 2)])
    nearest = np.argmin(np.linalg.norm(np.asarray(path)[:, None] - pairs, axis=-1), axis=1)
    assert np.bincount(nearest, minlength=6).min() > 135  # 200 expected, five standard deviations are 65


def test_batch_gradient_of_all_is_the_gradient():
    problem, theta = least_squares_sum(X, Y), np.array([0.3, -1.0, 0.5])
    np.testing.assert_allclose(batch_gradient(problem, theta, np.arange(12)), problem.gradient(theta), rtol=1e-12)
