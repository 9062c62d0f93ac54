"""AdaGrad."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary.nets import MLP, tanh, train
from corollary.optimization import (
    adagrad,
    adagrad_full,
    adagrad_norm,
    adagrad_shifted,
    adam,
    adamax,
    amsgrad,
    cosines,
    flattest,
    minimize,
    plateau_reductions,
    quadratic,
    random_cosines,
    reduce_on_plateau,
    rmsprop,
    rmsprop_amplitude,
)
from corollary.optimization.adagrad import Accumulated

RNG = np.random.default_rng(1)
A = RNG.normal(size=(4, 4))
H = A @ A.T + 0.1 * np.eye(4)
VALUES, AXES = np.linalg.eigh(H)
START = RNG.normal(size=4)
STEPS = 12


def path_of(method):
    return np.asarray(minimize(quadratic(VALUES, START, rotation=AXES), method, steps=STEPS).theta)


def loop(rule):
    """The iterates of `rule(k, past gradients) -> step` on the same quadratic."""
    theta, gradients, path = START.copy(), [], [START.copy()]
    for k in range(STEPS):
        gradients.append(H @ theta)
        theta = theta - rule(k, np.array(gradients))
        path.append(theta)
    return np.array(path)


def test_adagrad_by_coordinate():
    expected = loop(lambda k, g: 0.3 * g[-1] / (1e-3 + np.sqrt((g**2).sum(0))))
    np.testing.assert_allclose(path_of(adagrad(0.3, eps=1e-3)), expected, rtol=1e-12)


def test_adagrad_is_optax_without_offsets():
    optaxs = optax.adagrad(0.3, initial_accumulator_value=0.0, eps=0.0)
    np.testing.assert_allclose(path_of(adagrad(0.3, eps=0.0)), path_of(optaxs), rtol=1e-12)


def test_adagrad_shifted():
    expected = loop(lambda k, g: 0.3 * g[-1] / np.sqrt(4.0 + (g[:-1] ** 2).sum(0)))
    np.testing.assert_allclose(path_of(adagrad_shifted(2.0, 0.3)), expected, rtol=1e-12)


def test_adagrad_norm():
    expected = loop(lambda k, g: 0.3 * g[-1] / np.sqrt((g**2).sum()))
    np.testing.assert_allclose(path_of(adagrad_norm(0.3)), expected, rtol=1e-12)


@pytest.mark.parametrize("eps", [0.0, 1e-3])
def test_adagrad_full(eps):
    def rule(k, g):
        values, vectors = np.linalg.eigh(g.T @ g)
        seen = values > 1e-12 * values[-1] if eps == 0 else values > -1
        root = np.where(seen, 1 / np.sqrt(np.where(seen, np.maximum(values, 0) + eps, 1)), 0)
        return 0.3 * vectors @ (root * (vectors.T @ g[-1]))

    np.testing.assert_allclose(path_of(adagrad_full(0.3, eps=eps)), loop(rule), rtol=1e-6)


def test_zero_gradients_do_not_move():
    for method in (adagrad(eps=0.0), adagrad_norm(), adagrad_full(), adamax(), adamax(mode="global")):
        state = method.init(jnp.zeros(3))
        step, _ = method.update(jnp.zeros(3), state)
        np.testing.assert_array_equal(step, 0.0)


def test_one_coordinate_without_gradients():
    step, state = adagrad(1.0, eps=0.0).update(jnp.array([2.0, 0.0]), adagrad(1.0, eps=0.0).init(jnp.zeros(2)))
    np.testing.assert_allclose(step, [-1.0, 0.0])
    assert isinstance(state[0], Accumulated)
    np.testing.assert_allclose(state[0].total, [4.0, 0.0])


METHODS = {
    "adagrad": adagrad(0.1),
    "shifted": adagrad_shifted(1.0, 0.1),
    "norm": adagrad_norm(0.1),
    "full": adagrad_full(0.1),
    "rmsprop": rmsprop(0.05),
    "adam": adam(0.05),
    "biased": adam(0.05, bias_correction=False),
    "adamax": adamax(0.05),
    "global": adamax(0.05, mode="global"),
    "amsgrad": amsgrad(0.05),
}


@pytest.mark.parametrize("name", METHODS)
def test_they_train_networks_in_single_precision(name):
    x = jnp.linspace(-1, 1, 20, dtype=jnp.float32)[:, None]
    with jax.enable_x64(False):
        network = MLP((1, 3, 1), tanh, key=jax.random.key(0))
    trained = train(network, lambda output, y: (output[0] - y) ** 2, (x, x[:, 0] ** 2), METHODS[name], steps=60)
    assert trained.losses.dtype == jnp.float32
    assert trained.losses[-1] < 0.8 * trained.losses[0]


def test_flattest_is_the_point_of_the_shortest_gradient():
    path = minimize(quadratic(jnp.array([1.0]), jnp.array([1.4])), optax.sgd(1.9), steps=3)
    path = path._replace(gradient_norm=jnp.array([3.0, 1.0, 2.0, 0.5]))
    np.testing.assert_array_equal(flattest(path), path.theta[1])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: adagrad(0.0), "step must be positive"),
        (lambda: adagrad(eps=-1.0), "eps must be zero or more"),
        (lambda: adagrad_shifted(0.0), "sigma must be positive"),
        (lambda: adagrad_norm([0.1, 0.2]), r"step must have shape \(\)"),
        (lambda: adagrad_full(eps=np.nan), "eps must be finite"),
        (lambda: rmsprop(0.1, delta=1.0), r"delta must be in \[0, 1\)"),
        (lambda: rmsprop(0.1, initial=-1.0), "initial must be zero or more"),
        (lambda: rmsprop_amplitude(0.1, 0.0, 0.0), "curvature must be positive"),
        (lambda: adam("fast"), "step must be an array of numbers"),
        (lambda: adam(delta1=-0.1), r"delta1 must be in \[0, 1\)"),
        (lambda: adam(delta2=1.5), r"delta2 must be in \[0, 1\)"),
        (lambda: amsgrad(0.1, eps=-1), "eps must be zero or more"),
        (lambda: adamax(mode="both"), "mode must be one of 'componentwise', 'global'"),
        (lambda: reduce_on_plateau(optax.constant_schedule(0.1)), "step must be a number"),
        (lambda: reduce_on_plateau(0.1, factor=1.0), "factor must be greater than 1"),
        (lambda: reduce_on_plateau(0.1, patience=0), "patience must be at least 1"),
        (lambda: reduce_on_plateau(0.1, against="worst"), "against must be one of 'last', 'best'"),
        (lambda: plateau_reductions(0.1, -1.0), "L must be positive"),
        (lambda: cosines([1.0], [[1.0, 2.0]], [0.0, 1.0]), "phases must have shape"),
        (lambda: random_cosines(0, key=jax.random.key(0)), "dim must be at least 1"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()
