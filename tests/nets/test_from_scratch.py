import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets import bayes_logit, book_two_gaussians, two_gaussians
from corollary.nets.from_scratch import backward, bce_backward, bce_forward, forward, gd_step, initial_parameters, run

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(12, 2)), RNG.integers(0, 2, (12, 1)).astype(float)


class _Numpy:
    """The listing in NumPy, with its fault switchable, as the reference."""

    def __init__(self, parameters, twice):
        self.w = [np.array(p.weight) for p in parameters]
        self.b = [np.array(p.bias) for p in parameters]
        self.twice = twice

    def step(self, x, y, lr):
        seen, h = [], x
        for i, (w, b) in enumerate(zip(self.w, self.b, strict=True)):
            seen.append(h)
            z = h @ w + b
            h = np.maximum(z, 0) if i < len(self.w) - 1 else z
        p = 1 / (1 + np.exp(-h))
        loss = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
        d, n = (p - y) / len(y), len(y) if self.twice else 1
        for i in reversed(range(len(self.w))):
            dw, db = seen[i].T @ d / n, d.sum(0) / n
            d = (d @ self.w[i].T) * (seen[i] > 0)
            self.w[i] = self.w[i] - lr * dw
            self.b[i] = self.b[i] - lr * db
        return loss, np.mean((p > 0.5) == (y > 0.5))


@pytest.mark.parametrize("twice", [False, True])
def test_run_against_numpy(twice):
    parameters = initial_parameters((2, 6, 5, 1), key=KEY)
    ours = run(parameters, X, Y, step=0.5, steps=20, divide_again=twice)
    peer = _Numpy(parameters, twice)
    losses, accuracies = zip(*[peer.step(X, Y, 0.5) for _ in range(20)], strict=True)
    np.testing.assert_allclose(ours.losses, losses, rtol=1e-9)
    np.testing.assert_allclose(ours.accuracies, accuracies)
    np.testing.assert_allclose(ours.parameters[1].weight, peer.w[1], rtol=1e-8)


def test_initial_scale():
    weight = np.asarray(initial_parameters((300, 500, 1), key=KEY)[0].weight)
    np.testing.assert_allclose(weight.std(), (2 / 800) ** 0.5, rtol=0.01)


def test_relu_is_flat_at_zero():
    parameters = initial_parameters((2, 3, 1), key=KEY)
    _, inputs = forward(parameters, np.zeros((1, 2)))  # zero biases: every pre-activation is 0
    slopes, by_x = backward(parameters, inputs, np.ones((1, 1)))
    assert not np.asarray(by_x).any()
    assert not np.asarray(slopes[0].bias).any()


def test_loss_is_clipped():
    loss, p = bce_forward(np.array([[800.0], [-800.0]]), np.array([[0.0], [1.0]]))
    np.testing.assert_allclose(loss, -np.log(1e-12), rtol=1e-4)
    np.testing.assert_allclose(bce_backward(p, np.array([[0.0], [1.0]])), [[0.5], [-0.5]])


def test_decay():
    parameters = initial_parameters((2, 1), key=KEY)
    nothing = jax.tree.map(jnp.zeros_like, parameters)
    np.testing.assert_allclose(gd_step(parameters, nothing, 0.1, 0.2)[0].weight, 0.8 * parameters[0].weight)
    np.testing.assert_allclose(
        gd_step(parameters, nothing, 0.1, 0.2, coupled=True)[0].weight, 0.98 * parameters[0].weight
    )


def test_bad_input():
    with pytest.raises(ValueError, match="sizes must hold at least"):
        initial_parameters((2,), key=KEY)
    with pytest.raises(ValueError, match="x must have shape .N, d."):
        forward(initial_parameters((2, 1), key=KEY), X[0])
    with pytest.raises(ValueError, match="y must have shape .N, 1."):
        bce_forward(np.ones((3, 1)), np.ones(3))
    with pytest.raises(ValueError, match="y must be in"):
        bce_forward(np.ones((1, 1)), 2 * np.ones((1, 1)))
    with pytest.raises(ValueError, match="step must be positive"):
        run(initial_parameters((2, 1), key=KEY), X, Y, step=0.0, steps=1)
    with pytest.raises(ValueError, match="weight_decay must be zero or more"):
        gd_step((), (), 0.1, -1.0)
    with pytest.raises(ValueError, match="n must be from 1 to 1000"):
        book_two_gaussians(1001)
    with pytest.raises(ValueError, match="n must be at least 1"):
        two_gaussians(0, key=KEY)
    with pytest.raises(ValueError, match="x must have shape"):
        bayes_logit(np.ones((3, 3)))
