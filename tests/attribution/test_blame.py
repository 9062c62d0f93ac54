import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.attribution import blame, influence, self_influence

KEY = jax.random.key(0)
X, Y = np.random.RandomState(0).randn(20, 3), np.arange(20) % 3
DATA, TEST = (X, Y), (X[:4] + 0.1, Y[:4])


@pytest.fixture(scope="module")
def network():
    with jax.enable_x64(True):
        yield eqx.nn.MLP(3, 3, 4, 1, activation=jnp.tanh, key=KEY, dtype=jnp.float64)


@pytest.mark.parametrize("rank", [None, 31])
def test_both_are_those_of_influence(network, rank):
    """The whole matrix, and the span of all of its eigenvectors."""
    found = blame(network, "cross_entropy", DATA, TEST, rank=rank, penalty=0.1, products=400, key=KEY, batch_size=7)
    given = dict(damping=found.damping, penalty=0.1, curvature="gauss_newton")
    told = influence(network, "cross_entropy", DATA, TEST, **given)
    np.testing.assert_allclose(found.scores, told.scores, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.premises.drift, told.premises.drift, rtol=1e-6, atol=1e-9)
    own = self_influence(network, "cross_entropy", DATA, **given)
    np.testing.assert_allclose(found.own, own.scores, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.damping, 1e-3 * own.premises.largest, rtol=1e-6)
    assert float(found.residual.max()) < 1e-3


def test_a_newton_step_takes_the_gain_off_a_quadratic_loss():
    with jax.enable_x64(True):
        y = X @ np.array([1.0, -2.0, 0.5]) + 0.1 * np.random.RandomState(1).randn(20)
        linear = eqx.nn.Linear(3, "scalar", use_bias=False, key=KEY, dtype=jnp.float64)
        found = blame(linear, "squared", (X, y), (X[:2], y[:2]), share=1e-12)
        weights = np.asarray(linear.weight)[0]
        best = np.linalg.lstsq(X, y)[0]
        losses = [0.5 * np.mean((X @ w - y) ** 2) for w in (weights, best)]
        np.testing.assert_allclose(found.gain, losses[0] - losses[1], rtol=1e-8)
