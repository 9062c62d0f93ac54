"""Does the batch suit the noise? Numbers against all per-example gradients, and what the marks say."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from made import made

from corollary.audit.retrain import retrained
from corollary.audit.run import BUDGETS
from corollary.audit.sections import noise


def apply(params, x):
    return x @ params["w"] + params["b"]


def subject(n=200, spread=1.0, **known):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3)).astype(np.float32)
    y = (x @ np.ones((3, 1)) + spread * rng.normal(size=(n, 1))).astype(np.float32)
    params = {"w": jnp.full((3, 1), 0.5), "b": jnp.zeros(1)}
    return made(apply, params, "squared", (x, y), **known)


def found(subject):
    return {f.name: f for f in noise.findings(subject, BUDGETS["quick"], jax.random.key(0))}


def test_the_numbers_are_those_of_all_gradients():
    network = subject(learning_rate=0.1, batch_size=10)
    x, y = network.train

    def one(x, y):
        return ravel_pytree(jax.grad(network.objective)(network.params, (x[None], y[None])))[0]

    gradients = np.asarray(jax.jit(jax.vmap(one))(x, y), float)
    mean, covariance = gradients.mean(0), np.cov(gradients.T, ddof=0)
    findings = found(network)
    scale = findings["noise scale"]
    np.testing.assert_allclose(scale.value, np.trace(covariance) / (mean @ mean), rtol=1e-4)
    assert scale.interval[0] < scale.value < scale.interval[1]
    share = findings["share of the noise in its largest direction"]
    np.testing.assert_allclose(share.value, np.linalg.eigvalsh(covariance)[-1] / np.trace(covariance), rtol=1e-3)
    features = np.column_stack([np.asarray(x, float), np.ones(len(x))])
    sharp = np.linalg.eigvalsh(features.T @ features / len(x))[-1]
    change = -0.1 * mean @ mean + sharp * 0.01 / 2 * (mean @ mean + np.trace(covariance) / 10)
    np.testing.assert_allclose(findings["expected change of the loss in one step"].value, change, rtol=1e-3)


def test_a_batch_far_below_and_far_above_the_noise_scale_is_named():
    healthy = found(subject(batch_size=8, learning_rate=0.1))["noise scale"]
    above = found(subject(spread=0.01, batch_size=200, learning_rate=0.1))["noise scale"]
    assert (healthy.mark, above.mark) == ("fine", "look")


def test_a_batch_of_the_noise_scale_is_advised():
    """Far above it a batch takes as many steps as a smaller one, each of which costs more."""
    sick = subject(spread=0.01, batch_size=200, learning_rate=0.1, steps=5)
    (action,) = noise.actions(sick, tuple(found(sick).values()))
    scale = round(found(sick)["noise scale"].value)
    assert action.what == f"take batches of {scale} examples"
    treated = action.apply(sick, key=jax.random.key(0))
    assert treated.batch_size == scale
    assert found(treated)["noise scale"].mark == "fine"
    low, high = action.effect.interval
    # the interval is of one training at 95 %: the middle one of five lies inside it
    losses = [action.effect.measured(action.apply(sick, key=jax.random.key(i))) for i in range(5)]
    assert low <= np.median(losses) <= high
    # a step half as long leaves the batch as much too large
    other = retrained(sick.replaced(learning_rate=0.05), key=jax.random.key(0))
    assert found(other)["noise scale"].mark == "look"


def test_what_is_not_known_is_said():
    findings = found(subject())
    change = findings["expected change of the loss in one step"]
    assert change.mark == "not applicable"
    assert "learning rate and batch size" in change.sentence
    assert "was not given" in findings["noise scale"].sentence


def test_a_gradient_without_noise_and_noise_without_a_gradient():
    x, y = np.ones((4, 1), np.float32), np.zeros((4, 1), np.float32)
    same = made(lambda p, x: x * p, jnp.ones(1), "squared", (x, y))
    assert found(same)["share of the noise in its largest direction"].mark == "not applicable"
    y = np.array([[2.0], [0.0], [2.0], [0.0]], np.float32)
    balanced = made(lambda p, x: x * p, jnp.ones(1), "squared", (x, y))
    assert found(balanced)["noise scale"].mark == "not applicable"
