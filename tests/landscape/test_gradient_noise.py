"""The noise of gradients against all per-example gradients in one matrix, and against all batches there are."""

import importlib
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import BatchLoss, Network, nets
from corollary.landscape import SGDPromise, gradient_noise, sgd_promise

KEY = jax.random.key(0)


def _setting(n=23, sizes=(3, 6, 2)):
    rng = np.random.default_rng(0)
    network = nets.MLP(sizes, nets.tanh, key=KEY)
    return network, (rng.normal(size=(n, sizes[0])), rng.normal(size=(n, sizes[-1])))


def _loss(network, batch):
    x, y = batch
    return jnp.mean(jnp.sum((jax.vmap(network)(x) - y) ** 2, 1)) / 2


def _point(theta):
    """A network whose output is a point, whatever the input."""
    return Network(lambda theta, x: theta, theta)


def _gradients(network, data):
    """One row per example, one example at a time."""
    return np.stack(
        [
            np.concatenate([np.ravel(g) for g in jax.tree.leaves(eqx.filter_grad(_loss)(network, (x[None], y[None])))])
            for x, y in zip(*data, strict=True)
        ]
    )


@pytest.mark.parametrize("stored", [True, False])
def test_against_all_gradients(stored, monkeypatch):
    if not stored:
        monkeypatch.setattr(importlib.import_module("corollary.landscape.gradient_noise"), "STORED", 0)
    network, data = _setting()
    found = gradient_noise(network, "squared", data, top=3, batch_size=5)
    rows = _gradients(network, data)
    mean, covariance = rows.mean(0), np.cov(rows.T, bias=True)
    assert (found.examples, found.parameters) == rows.shape
    np.testing.assert_allclose(found.gradient_norm, np.linalg.norm(mean), rtol=1e-11)
    np.testing.assert_allclose(found.second_moment, np.mean(np.sum(rows**2, 1)), rtol=1e-11)
    np.testing.assert_allclose(found.trace, np.trace(covariance), rtol=1e-11)
    np.testing.assert_allclose(found.noise_scale, np.trace(covariance) / np.sum(mean**2), rtol=1e-11)
    # the error of a value is at most its residual
    top = np.linalg.eigvalsh(covariance)[::-1][:3]
    assert found.top.converged
    assert np.all(np.abs(found.top.values - top) <= found.top.residuals + 1e-12 * top[0])
    left = covariance @ found.top.vectors.T - found.top.values * found.top.vectors.T
    assert np.all(np.linalg.norm(left, axis=0) <= found.top.residuals + 1e-12 * top[0])
    assert np.all(found.top.residuals <= 1e-4 * top[0])


def test_variance_of_every_batch_there_is():
    network, data = _setting(6)
    found = gradient_noise(network, "squared", data)
    rows = _gradients(network, data)
    for batch in (1, 2, 3, 6):
        for replacement, draws in (
            (True, itertools.product(range(6), repeat=batch)),
            (False, itertools.combinations(range(6), batch)),
        ):
            if replacement and batch == 6:
                continue
            means = np.stack([rows[list(draw)].mean(0) for draw in draws])
            expected = np.mean(np.sum((means - rows.mean(0)) ** 2, 1))
            np.testing.assert_allclose(
                found.batch_variance(batch, replacement=replacement), expected, rtol=1e-10, atol=1e-15
            )


def test_no_cancellation_where_all_gradients_are_nearly_equal():
    rng = np.random.default_rng(1)
    x = 1e6 + 1e-3 * rng.normal(size=(50, 4))
    found = gradient_noise(_point(jnp.zeros(4)), "squared", (x, x))
    # the gradients are -x, rounded to 1e-10; the difference of the moments, 4e12, would have no digit left
    np.testing.assert_allclose(found.trace, np.trace(np.cov(x.T, bias=True)), rtol=1e-6)


@pytest.mark.parametrize("distance", [2.0, 0.3, 0.0])
def test_interval_covers_the_noise_scale_of_the_population(distance):
    # gradients theta - x with normal x: noise 5, gradient of the given length; 500 data sets of 100 examples
    def one(key):
        x = jax.random.normal(key, (100, 5))
        theta = jnp.zeros(5).at[0].set(distance)
        return gradient_noise(_point(theta), "squared", (x, x), batch_size=100).interval

    low, high = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(KEY, 500))).T
    truth = 5 / distance**2 if distance else np.inf
    assert np.all(low < high)
    # 475 are expected, with a standard deviation of 5; at most 5 of those too few
    assert np.sum((low <= truth) & (truth <= high)) >= 450
    if distance == 2.0:
        # the delta method alone: relative error of the squared length 2 / (2 sqrt 100), of the trace 0.063
        assert np.all(np.isfinite(high))
        assert np.median(high - low) < 2 * 2 * 1.96 * truth * np.hypot(0.1, 0.063)
    if distance == 0:
        assert np.mean(np.isinf(high)) >= 0.9
        assert np.median(low) > 10


def test_at_a_minimum_of_every_example():
    found = gradient_noise(Network(lambda t, x: x @ t, jnp.zeros(2)), "squared", (np.ones((4, 2)), np.zeros(4)), top=1)
    assert (found.trace, found.noise_scale, found.gradient_norm) == (0, np.inf, 0)
    assert found.top.values[0] == 0
    promise = sgd_promise(found, 1.0, 0.0, step=0.1, batch_size=2, steps=3)
    assert promise == SGDPromise(0, 0, 0, 0)


def test_single_precision_fixed_leaves_and_jit():
    network, data = _setting()
    small = jax.tree.map(lambda a: a.astype(jnp.float32) if eqx.is_inexact_array(a) else a, network)
    data32 = tuple(a.astype(np.float32) for a in data)
    found = gradient_noise(small, "squared", data32, top=1, batch_size=8)
    exact = gradient_noise(network, "squared", data, top=1)
    assert found.trace.dtype == found.top.values.dtype == found.interval.dtype == jnp.float32
    np.testing.assert_allclose(found.trace, exact.trace, rtol=1e-5)
    np.testing.assert_allclose(found.interval, exact.interval, rtol=1e-4)
    np.testing.assert_allclose(found.top.values, exact.top.values, rtol=1e-4)
    jitted = eqx.filter_jit(lambda net: gradient_noise(net, "squared", data, top=1, batch_size=8))(network)
    np.testing.assert_allclose(jitted.trace, exact.trace, rtol=1e-11)


# --- what the rates promise


def test_promise_of_one_step_is_kept_and_tight_on_a_quadratic():
    # f_i = L/2 |theta - x_i|^2: the bound of one step is an equality
    L, step, batch = 3.0, 0.2, 2
    x, theta = np.random.default_rng(2).normal(size=(5, 3)), jnp.array([1.0, -2.0, 0.5])

    def loss(theta, x):
        return 0.5 * L * jnp.mean(jnp.sum((x - theta) ** 2, 1))

    noise = gradient_noise(_point(theta), lambda f, y: 0.5 * L * jnp.sum((f - y) ** 2), (x, x))
    least = float(loss(jnp.asarray(x.mean(0)), x))
    gap = float(loss(theta, x)) - least
    for replacement in (True, False):
        promise = sgd_promise(noise, L, gap, step=step, batch_size=batch, steps=4, replacement=replacement)
        draws = itertools.product(range(5), repeat=2) if replacement else itertools.combinations(range(5), 2)
        after = [float(loss(theta - step * L * (theta - x[list(d)].mean(0)), x)) for d in draws]
        np.testing.assert_allclose(promise.change, np.mean(after) - gap - least, rtol=1e-10)
        # at the largest step that decreases for sure, nothing changes in expectation
        edge = sgd_promise(
            noise, L, gap, step=promise.decreasing_step, batch_size=batch, steps=4, replacement=replacement
        )
        np.testing.assert_allclose(edge.change, 0, atol=1e-12)


def test_promise_of_the_average_is_kept_by_all_paths():
    # the noise of f_i = L/2 |theta - x_i|^2 is the same everywhere; all paths of four steps of one example
    L, step, steps = 3.0, 0.2, 4
    x, theta = np.random.default_rng(3).normal(size=(3, 2)), np.array([1.0, -2.0])
    noise = gradient_noise(_point(jnp.asarray(theta)), lambda f, y: 0.5 * L * jnp.sum((f - y) ** 2), (x, x))
    gap = 0.5 * L * np.sum((theta - x.mean(0)) ** 2)
    promise = sgd_promise(noise, L, gap, step=step, batch_size=1, steps=steps)
    totals = []
    for path in itertools.product(range(3), repeat=steps):
        place, total = theta, 0.0
        for i in path:
            total += np.sum((L * (place - x.mean(0))) ** 2) / steps
            place = place - step * L * (place - x[i])
        totals.append(total)
    assert np.mean(totals) <= promise.average_gradient
    np.testing.assert_allclose(promise.average_gradient, step * L * noise.trace + 2 * gap / (step * steps), rtol=1e-12)
    np.testing.assert_allclose(promise.floor, step * L * noise.trace, rtol=1e-12)
    beyond = sgd_promise(noise, L, gap, step=0.4, batch_size=1, steps=steps)
    assert beyond.average_gradient == beyond.floor == np.inf


_NETWORK = Network(lambda params, x: x @ params["w"], {"w": jnp.ones((3, 2))})
_DATA = (np.ones((4, 3)), np.zeros((4, 2)))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"loss": 3}, "loss must be a name, a function of one output and one target"),
        ({"loss": BatchLoss(lambda n, b: 0.0)}, "gradient_noise needs the loss of every example on its own"),
        ({"network": {}}, "network must be callable"),
        ({"network": Network(lambda p, x: x, {})}, "network must have at least one floating-point array"),
        ({"data": ()}, r"data must be a pair \(x, y\)"),
        ({"data": (np.ones((1, 3)), np.ones((1, 2)))}, "data must hold at least two examples"),
        ({"data": (np.ones((4, 3)), np.zeros((3, 2)))}, "one common first axis"),
        ({"data": (np.full((4, 3), np.inf), np.zeros((4, 2)))}, r"data\[0\] must be finite"),
        ({"loss": lambda f, y: f}, "loss must return one number per example"),
        ({"loss": lambda f, y: jnp.log(-jnp.sum(f))}, "loss must be finite"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"top": 7}, "top must be from 0 to 6"),
        ({"confidence": 1.0}, "confidence must be in \\(0, 1\\)"),
    ],
)
def test_sentences(change, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        gradient_noise(**({"network": _NETWORK, "loss": "squared", "data": _DATA} | change))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"noise": 3}, "noise must be a GradientNoise"),
        ({"L": 0.0}, "L must be positive"),
        ({"gap": -1.0}, "gap must be zero or more"),
        ({"step": -0.1}, "step must be positive"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"batch_size": 5, "replacement": False}, "batch_size must be from 1 to 4"),
        ({"steps": 0}, "steps must be at least 1"),
    ],
)
def test_sentences_of_the_promise(change, sentence):
    noise = gradient_noise(_NETWORK, "squared", _DATA)
    arguments = {"noise": noise, "L": 1.0, "gap": 1.0, "step": 0.1, "batch_size": 2, "steps": 5}
    with pytest.raises((TypeError, ValueError), match=sentence):
        sgd_promise(**(arguments | change))
