"""Did it find a minimum? Numbers against dense Hessians, and planted defects."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from made import made

from corollary import Network, Subject
from corollary.audit.finding import short
from corollary.audit.run import BUDGETS
from corollary.audit.sections import _blind, _class_margins, _sharpness, minimum


def apply(params, x):
    return jnp.tanh(x @ params["w"]) @ params["v"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3)).astype(np.float32)
    return x, (np.tanh(x @ rng.normal(size=(3, 2))) @ rng.normal(size=(2, 1))).astype(np.float32)


def trained(data, start, eta=0.1, steps=3000):
    x, y = data

    def loss(p):
        return 0.5 * jnp.mean(jnp.sum((apply(p, x) - y) ** 2, axis=1))

    return jax.jit(
        lambda p: jax.lax.fori_loop(
            0, steps, lambda _, q: jax.tree.map(lambda a, g: a - eta * g, q, jax.grad(loss)(q)), p
        )
    )(start)


def start(scale=0.5):
    keys = jax.random.split(jax.random.key(0))
    return {"w": scale * jax.random.normal(keys[0], (3, 4)), "v": scale * jax.random.normal(keys[1], (4, 1))}


def found(subject):
    return {f.name: f for f in minimum.findings(subject, BUDGETS["quick"], jax.random.key(0))}


def test_the_numbers_are_those_of_the_dense_hessian(data):
    params = trained(data, start())
    findings = found(made(apply, params, "squared", data, learning_rate=0.1))
    flat, unravel = ravel_pytree(params)
    x, y = data
    exact = jax.jit(jax.hessian(lambda t: 0.5 * jnp.mean(jnp.sum((apply(unravel(t), x) - y) ** 2, axis=1))))(flat)
    spectrum = np.linalg.eigvalsh(exact)
    sharp, least = findings["sharpness against 2/η"], findings["least curvature"]
    np.testing.assert_allclose(sharp.value, spectrum[-1], rtol=1e-3)
    assert sharp.interval[0] <= spectrum[-1] <= sharp.interval[1]
    np.testing.assert_allclose(least.value, spectrum[0], atol=1e-3 * spectrum[-1])
    trace = findings["trace of the Hessian"]
    assert trace.interval[0] - 0.1 * spectrum[-1] <= spectrum.sum() <= trace.interval[1] + 0.1 * spectrum[-1]
    assert findings["gradient norm"].mark == "fine"
    assert sharp.mark == "fine"
    assert "median margin" not in findings  # a regression has none


def test_a_step_above_two_over_the_sharpness_is_named(data):
    params = trained(data, start())
    healthy = found(made(apply, params, "squared", data, learning_rate=0.1))["sharpness against 2/η"]
    sick = found(made(apply, params, "squared", data, learning_rate=4 / healthy.value))["sharpness against 2/η"]
    assert (healthy.mark, sick.mark) == ("fine", "problem")


def test_a_saddle_is_named_and_its_direction_lowers_the_loss(data):
    """All weights zero is a saddle of this network: no gradient, curvature of both signs."""
    stuck = jax.tree.map(jnp.zeros_like, start())
    least = found(made(apply, stuck, "squared", data))["least curvature"]
    assert least.mark == "problem"
    assert least.value < 0
    healthy = found(made(apply, trained(data, start()), "squared", data))["least curvature"]
    assert healthy.mark == "fine"


def test_an_untrained_network_is_not_at_rest(data):
    slope = found(made(apply, start(2.0), "squared", data))["gradient norm"]
    assert slope.mark == "look"


# --- what to do


def cured(subject, name):
    """The action for a finding, taken: the network after it has it no more, at a loss that was promised."""
    before = minimum.findings(subject, BUDGETS["quick"], jax.random.key(0))
    (action,) = [a for a in minimum.actions(subject, tuple(before)) if a.treats == name]
    treated = action.apply(subject, key=jax.random.key(0))
    after = found(treated)
    assert after[name].mark == "fine"
    assert "problem" not in {f.mark for f in after.values()}
    low, high = action.effect.interval
    assert low <= action.effect.measured(treated) <= high < action.effect.now
    return action.what


def test_off_a_saddle_it_goes_on(data):
    stuck = jax.tree.map(jnp.zeros_like, start())
    subject = made(apply, stuck, "squared", data, learning_rate=0.1, steps=3000)
    assert cured(subject, "least curvature") == "train on from a point 5% of the weights away"
    # to train on from where it is leaves it there: the gradient is zero
    on = minimum._on(subject, found(subject)["least curvature"])
    assert on is None or found(on.apply(subject, key=jax.random.key(0)))["least curvature"].mark == "problem"


def test_what_was_stopped_on_its_way_goes_on(data):
    stopped = trained(data, start(2.0), steps=5)
    subject = made(apply, stopped, "squared", data, learning_rate=0.1, steps=3000)
    assert cured(subject, "gradient norm") == "train on for 3000 steps"


def test_margins_of_two_classes_and_of_many():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 2)).astype(np.float32)
    y = (x[:, 0] > 0).astype(int)
    linear = lambda p, x: x @ p  # noqa: E731
    many = found(made(linear, jnp.array([[-3.0, 3.0], [0.0, 0.0]]), "cross_entropy", (x, y)))["median margin"]
    np.testing.assert_allclose(many.value, np.median(6 * np.abs(x[:, 0])), rtol=1e-5)
    wrong = found(made(linear, jnp.array([[3.0, -3.0], [0.0, 0.0]]), "cross_entropy", (x, y)))["median margin"]
    assert wrong.mark == "look"
    # what is behind is not ahead by less than nothing
    assert f"true class behind by {short(-wrong.value)} at most, or ahead" in wrong.sentence
    assert f"true class ahead by {short(many.value)} or more" in many.sentence
    # half of the letters of a text are a surprise to any reader
    half = np.array([-1.0, -1.0, 1.0])
    assert [_class_margins.judge(half, what).mark for what in ("examples", "places")] == ["look", "fine"]


def test_no_step_is_judged_by_a_curvature_that_training_does_not_see():
    x = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    data, params, moments = (x, x[:, :1]), {"w": jnp.ones((3, 1))}, (jnp.zeros(3), jnp.ones(3))
    stored = lambda p, m, x: ((x - m[0]) / jnp.sqrt(m[1])) @ p["w"]  # noqa: E731
    by_batch = lambda p, _, x: stored(p, (x.mean(0), x.var(0)), x)  # noqa: E731
    for known, mark in ((by_batch, "fine"), (None, "problem")):
        network = Network(stored, params, moments, batched=True, recomputed=known)
        subject = Subject(network, "squared", data, learning_rate=1.0)
        assert _sharpness.judge(subject, 10.0, (10.0, 10.0), None).mark == mark


def test_a_linear_model_is_told_nothing_about_sharper_points():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)).astype(np.float32)
    params, data = jnp.ones((3, 1)), (x, x @ np.ones((3, 1), np.float32))
    sharp = float(np.linalg.eigvalsh(x.T @ x / len(x))[-1])
    for factor, mark in ((0.95, "look"), (1.2, "problem")):
        subject = made(lambda p, x: x @ p, params, "squared", data, learning_rate=2 * factor / sharp)
        finding = _sharpness.judge(subject, sharp, (sharp, sharp), None)
        assert finding.mark == mark
        assert "sharper" not in finding.sentence
    assert finding.sentence.endswith("grows with every step without end.")


def test_worse_than_a_blind_guess(data):
    """Weights of another network, and the healthy one beside it."""
    params = trained(data, start())
    blind = _blind.blind_guess(made(apply, params, "squared", data))
    assert blind == pytest.approx(float(np.var(data[1])) / 2, rel=1e-4)
    assert _blind.judge(made(apply, params, "squared", data).mean_loss(), blind).mark == "fine"
    other = made(apply, params | {"v": -params["v"]}, "squared", data)
    finding = _blind.judge(other.mean_loss(), blind)
    assert finding.mark == "problem"
    assert "worse than not to look" in finding.sentence
    # a start costs a little more than a guess
    assert _blind.judge(1.05 * blind, blind).mark == "fine"
    assert _blind.judge(1.0, None).mark == "not applicable"
