"""Least squares without one of its points: retrained, in closed form, and what influence makes of it."""

import jax
import jax.numpy as jnp

from corollary import Network
from corollary.attribution import influence, least_squares_removal, leave_one_out_retraining
from corollary.evidence import Size, claim, control, equal


def _least_squares(train, weights):
    """The weighted least squares fit, as a network."""
    x, y = train
    return Network(lambda w, one: w @ one, jnp.linalg.solve((x.T * weights) @ x, x.T @ (weights * y)))


def _logistic(train, weights):
    """The weighted logistic regression with a little penalty, by Newton steps."""
    x, y = train
    n, d = x.shape

    def step(w, _):
        p = jax.nn.sigmoid(x @ w)
        slope = x.T @ (weights * (p - y)) / n + 0.05 * w
        return w - jnp.linalg.solve((x.T * (weights * p * (1 - p))) @ x / n + 0.05 * jnp.eye(d), slope), None

    return Network(lambda w, one: w @ one, jax.lax.scan(step, jnp.zeros(d), length=12)[0])


def _predicted(scores, leverages, residuals):
    """The change of squared test losses that follows from influence and leverage."""
    moved = scores / (1 - leverages[:, None])
    return moved + 0.5 * (moved / residuals) ** 2


@claim(rows=("T10.02", "T10.03"))
def influence_over_one_minus_leverage(key, *, dim: Size = 5, n: Size = 40, tests: Size = 8):
    r"""For least squares a removal moves the parameters by exactly the influence over one minus the leverage.

    For the squared loss of a linear model with residuals $e_i$ and leverages $h_i=x_i^\top(X^\top X)^{-1}x_i<1$:
    $\theta_{-i}-\theta=-\frac{(X^\top X)^{-1}x_ie_i}{1-h_i}$, and the first-order prediction
    $\frac1nH^{-1}\nabla\ell(x_i,\theta)$ is that times $1-h_i$. The loss of a test point with residual $r$ then changes
    by $q+\frac{q^2}{2r^2}$, $q=\frac s{1-h_i}$ for its influence score $s$. Of another loss neither is true.
    """

    @jax.jit
    def measure(key):
        x_key, y_key, z_key, t_key, w_key = jax.random.split(key, 5)
        x, z = jax.random.normal(x_key, (n, dim)), jax.random.normal(z_key, (tests, dim))
        truth = jax.random.normal(w_key, (dim,))
        y = x @ truth + jax.random.normal(y_key, (n,))
        t = z @ truth + jax.random.normal(t_key, (tests,))
        network = _least_squares((x, y), jnp.ones(n))
        closed = least_squares_removal((x, y))
        weights = 1 - jnp.eye(n)
        retrained = jax.vmap(lambda w: _least_squares((x, y), w).params - network.params)(weights)
        gradients = (x @ network.params - y)[:, None] * x
        first = jnp.linalg.solve(x.T @ x / n, gradients.T).T / n
        scores = influence(network, "squared", (x, y), (z, t)).scores
        changes = leave_one_out_retraining(_least_squares, "squared", (x, y), (z, t)).changes

        label, sign = (y > 0).astype(float), (t > 0).astype(float)
        other = _logistic((x, label), jnp.ones(n))
        p = jax.nn.sigmoid(x @ other.params)
        root = x * jnp.sqrt(p * (1 - p))[:, None]
        hat = jnp.sum(root * jnp.linalg.solve(root.T @ root + 0.05 * n * jnp.eye(dim), root.T).T, 1)
        far = influence(other, "binary_cross_entropy", (x, label), (z, sign), penalty=0.05).scores
        turned = leave_one_out_retraining(_logistic, "binary_cross_entropy", (x, label), (z, sign)).changes
        return {
            "moved": (retrained, closed.changes, first / (1 - closed.leverages[:, None])),
            "changed": (changes, _predicted(scores, closed.leverages, z @ network.params - t)),
            "logistic": (turned, _predicted(far, hat, jax.nn.sigmoid(z @ other.params) - sign)),
        }

    found = measure(key)
    retrained, closed, first = found["moved"]
    yield equal("parameters without a point: retrained against closed form", retrained, closed, atol=1e-11)
    yield equal("parameters without a point: first order over 1 - h", retrained, first, atol=1e-11)
    yield equal("change of test losses: retrained against influence", *found["changed"], atol=1e-10)
    yield control(
        "the squared loss: here the logistic one", equal("change of test losses", *found["logistic"], atol=1e-10)
    )
