import jax
import jax.numpy as jnp
import numpy as np

from corollary.optimization import coin, quadratic, sigmoid_sum, walk

RNG = np.random.default_rng(1)
X, Y = RNG.normal(size=(6, 2)), RNG.normal(size=6)
THETA = np.array([0.3, -1.0])


def test_oracles_have_the_mean_and_size_they_promise():
    flat = coin(quadratic(jnp.array([1.0, 2.0])), 0.5)
    keys = jax.random.split(jax.random.key(0), 4000)
    seen = np.asarray(jax.vmap(lambda k: flat.oracle(jnp.ones(2), key=k))(keys))
    np.testing.assert_allclose(np.abs(seen - [1.0, 2.0]), 0.5)
    np.testing.assert_allclose(seen.mean(0), [1.0, 2.0], atol=5 * 0.5 / 4000**0.5)
    line = walk(2.0, 3.0)
    steps = np.asarray(jax.vmap(lambda k: line.oracle(jnp.array(0.6), key=k))(keys))
    np.testing.assert_allclose(np.abs(steps), 3.0)
    np.testing.assert_allclose(steps.mean(), 1.2, atol=5 * 3 / 4000**0.5)
    assert line.start == 1.5


def test_sigmoid_sum_keeps_its_bounds():
    labels = np.sign(Y)
    problem = sigmoid_sum(X, labels)
    for theta in RNG.normal(scale=3, size=(50, 2)):
        curvature = np.abs(np.linalg.eigvalsh(problem.hessian(jnp.array(theta)))).max()
        assert curvature <= problem.L
        assert (np.linalg.norm(problem.gradients(jnp.array(theta)), axis=1) <= np.linalg.norm(X, axis=1) / 4).all()
    np.testing.assert_allclose(problem(jnp.array(THETA)), np.mean(1 / (1 + np.exp(labels * (X @ THETA)))), rtol=1e-12)
