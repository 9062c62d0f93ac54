"""A problem: a function to minimise, together with what is known of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.optimization import finite_sum, noisy, quadratic

KEY = jax.random.key(0)


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def classification(n=60, d=3):
    x = jax.random.normal(KEY, (n, d))
    y = jax.random.bernoulli(jax.random.key(1), jax.nn.sigmoid(x[:, 0])).astype(float)
    return x, y


def test_oracles_are_unbiased_with_the_declared_noise():
    p = noisy(quadratic(jnp.ones(3)), 2.0)
    keys = jax.random.split(KEY, 20_000)
    seen = jax.jit(jax.vmap(lambda k: p.oracle(p.start, key=k)))(keys) - p.gradient(p.start)
    assert np.abs(seen.mean(0)).max() < 5 * 2 / np.sqrt(3 * 20_000)
    assert np.isclose(np.sum(seen**2, 1).mean(), 4.0, rtol=0.05)
    x, y = classification()
    f = finite_sum(lambda t, a, b: 0.5 * (a @ t - b) ** 2, (x, y), jnp.ones(3), batch_size=4)
    assert np.allclose(f.gradients(f.start).mean(0), f.gradient(f.start))
    assert np.isclose(f(f.start), 0.5 * np.mean((x @ jnp.ones(3) - y) ** 2))
    drawn = jax.jit(jax.vmap(lambda k: f.oracle(f.start, key=k)))(keys)
    spread = np.asarray(f.gradients(f.start)).var(0) / 4
    assert np.abs(drawn.mean(0) - f.gradient(f.start)).max() < 5 * np.sqrt(spread.max() / 20_000)
    assert np.allclose(drawn.var(0), spread, rtol=0.1)
