import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network
from corollary.attribution import continued_removal

KEY = jax.random.key(0)
X = np.random.RandomState(0).randn(15, 3)
Y = X @ np.array([1.0, -2.0, 0.5]) + 0.1 * np.random.RandomState(1).randn(15)


def test_to_the_end_it_is_least_squares_without_the_point():
    with jax.enable_x64(True):
        linear = eqx.nn.Linear(3, "scalar", use_bias=False, key=KEY, dtype=jnp.float64)
        given = dict(step=0.3, steps=400, momentum=0.5)
        found = continued_removal(linear, "squared", (X, Y), (X[:4], Y[:4]), [2, 7], **given)

        def losses(kept):
            return 0.5 * (X[:4] @ np.linalg.lstsq(X[kept], Y[kept])[0] - Y[:4]) ** 2

        everyone = np.arange(15)
        np.testing.assert_allclose(found.losses, losses(everyone), rtol=1e-8)
        for row, point in zip(found.changes, (2, 7), strict=True):
            np.testing.assert_allclose(
                row, losses(np.delete(everyone, point)) - losses(everyone), rtol=1e-7, atol=1e-12
            )
        # with a penalty it is ridge regression, whose shares stay 1/n
        ridge = continued_removal(linear, "squared", (X, Y), (X[:4], Y[:4]), [2], penalty=0.5, batch_size=1, **given)
        kept = np.delete(everyone, 2)
        theta = np.linalg.solve(X[kept].T @ X[kept] / 15 + 0.5 * np.eye(3), X[kept].T @ Y[kept] / 15)
        after = 0.5 * (X[:4] @ theta - Y[:4]) ** 2
        np.testing.assert_allclose(ridge.changes[0] + ridge.losses, after, rtol=1e-8)


def test_a_point_that_is_not_there():
    linear = eqx.nn.Linear(3, "scalar", key=KEY)
    with pytest.raises(ValueError, match="removed must hold labels from 0 to 14, got 15"):
        continued_removal(linear, "squared", (X, Y), (X, Y), [15], step=0.1, steps=1)


def test_examples_that_see_each_other():
    centred = Network(lambda w, x: (x @ w - (x @ w).mean(0))[:, 0], jnp.ones((3, 1)), batched=True)
    with pytest.raises(ValueError, match="changes with the other examples in its batch"):
        continued_removal(centred, "squared", (X, Y), (X, Y), [0], step=0.1, steps=1)
