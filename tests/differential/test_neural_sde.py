import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from corollary.differential import NeuralSDE, euler_maruyama, path_log_likelihood

KEY = jax.random.key(0)
PULL = NeuralSDE(lambda x: -x, lambda x: 0.5 * jnp.ones_like(x))


def test_the_recursion():
    noise = np.asarray(jax.random.normal(KEY, (5, 3, 2)))
    x, states = np.broadcast_to([1.0, 2.0], (3, 2)), [np.broadcast_to([1.0, 2.0], (3, 2))]
    for w in noise:
        x = x - 0.2 * x + np.sqrt(0.2) * 0.5 * w
        states.append(x)
    found = euler_maruyama(PULL, [1.0, 2.0], 1.0, steps=5, paths=3, keep="path", noise=noise)
    np.testing.assert_allclose(found, np.swapaxes(states, 0, 1), rtol=1e-12)
    np.testing.assert_allclose(euler_maruyama(PULL, [1.0, 2.0], 1.0, steps=5, paths=3, noise=noise), x, rtol=1e-12)


def test_the_law_of_the_end():
    ends = np.asarray(euler_maruyama(PULL, jnp.ones(1), 1.0, steps=4, paths=4000, key=KEY))[:, 0]
    # x ↦ 0.75 x plus noise of variance 0.25 · 0.25, four times
    variance = 0.0625 * (1 - 0.75**8) / (1 - 0.75**2)
    assert stats.kstest(ends, stats.norm(0.75**4, np.sqrt(variance)).cdf).pvalue > 1e-6


def test_likelihood_against_scipy():
    path = np.array([[0.0], [0.3], [0.1]])
    expected = stats.norm.logpdf([0.3, 0.1], [0.0, 0.3 - 0.1 * 0.3], 0.5 * np.sqrt(0.1)).mean()
    assert float(path_log_likelihood(PULL, path, 0.1)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: NeuralSDE(1.0, lambda x: x), "drift must be a function"),
        (lambda: euler_maruyama(lambda x: x, jnp.ones(1), 1.0, steps=2, key=KEY), "sde must be a NeuralSDE"),
        (lambda: euler_maruyama(PULL, jnp.ones(1), 1.0, steps=2), "Give a key"),
        (lambda: euler_maruyama(PULL, jnp.ones(1), -1.0, steps=2, key=KEY), "horizon must be"),
        (lambda: euler_maruyama(PULL, jnp.ones(1), 1.0, steps=2, noise=jnp.ones((3, 1, 1))), "noise must have shape"),
        (lambda: path_log_likelihood(PULL, jnp.ones((1, 1)), 0.1), "at least two states"),
        (
            lambda: path_log_likelihood(NeuralSDE(lambda x: x, lambda x: 0 * x), jnp.ones((3, 1)), 0.1),
            "must not vanish",
        ),
        (
            lambda: euler_maruyama(NeuralSDE(lambda x: x**3, lambda x: x), jnp.full(1, 9.0), 9.0, steps=9, key=KEY),
            "explodes",
        ),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
