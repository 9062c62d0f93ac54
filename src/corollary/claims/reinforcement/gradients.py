"""The update of Q-learning is not the gradient of its objective (M, Remark 21.3)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.dynamics import draw_shallow, limit_kernel
from corollary.evidence import at_least, claim, control, equal, printed
from corollary.reinforcement import History, q_network, residual_gradient, semi_gradient

# all pairs with all next states, and with all couples of next states
X, A, Z = (i.ravel() for i in np.indices((3, 2, 3)))
X2, A2, Z2, ZZ = (i.ravel() for i in np.indices((3, 2, 3, 3)))


def _flat(tree):
    return jax.flatten_util.ravel_pytree(tree)[0]


@jax.jit
def _measure(key, beta):
    """For each of the six pairs: updates by enumeration, and the parts of the slope of ½(Y - Q)² by other means."""
    net_key, state_key, p_key, r_key = jax.random.split(key, 4)
    states, r = 1.5 * jax.random.orthogonal(state_key, 3), jax.random.normal(r_key, (3, 2))
    p = jax.random.dirichlet(p_key, jnp.ones(3), (3, 2))
    network = q_network(draw_shallow(6, 5, key=net_key), 1.5 * jnp.eye(2))

    def history(x, a, z):
        no = jnp.zeros(len(x), bool)
        return History(states[x], jnp.asarray(a), r[x, a], states[z], no, no)

    def semi(x, a):
        weights = jnp.where((x == X) & (a == A), p[X, A, Z], 0)
        return _flat(semi_gradient(network, history(X, A, Z), beta, weights=weights))

    def two(x, a):
        weights = jnp.where((x == X2) & (a == A2), p[X2, A2, Z2] * p[X2, A2, ZZ], 0)
        moves = history(X2, A2, Z2)
        return _flat(residual_gradient(network, moves, beta, second=states[ZZ], weights=weights))

    flat, tree = jax.flatten_util.ravel_pytree(network.params)

    def parts(flat, x, a):
        """Y and Q of a pair, as the text defines them."""
        values = jax.vmap(network.with_params(tree(flat)))(states)
        return r[x, a] + beta * p[x, a] @ values.max(1), values[x, a]

    def error(flat, x, a):
        y, q = parts(flat, x, a)
        return (y - q) ** 2 / 2

    def by_differences(x, a):
        def along(e):
            return (error(flat + 1e-5 * e, x, a) - error(flat - 1e-5 * e, x, a)) / 2e-5

        return jax.lax.map(along, jnp.eye(flat.size))

    def one(pair):
        x, a = pair
        y, q = parts(flat, x, a)
        dy, dq = jax.jacrev(parts)(flat, x, a)
        return semi(x, a), two(x, a), by_differences(x, a), (y - q) * dq, (y - q) * dy

    return jax.lax.map(one, (jnp.repeat(jnp.arange(3), 2), jnp.tile(jnp.arange(2), 3)))


@claim(rows=("M21.24",))
def semi_gradient_bias(key):
    r"""The update of Q-learning differs from the gradient of its objective by the slope of its target, exactly.

    $g=(r+\beta\max_{a'}Q(x',a')-Q(x,a))\nabla Q(x,a)$ has, given the pair, the mean $(Y-Q)\nabla Q$ with
    $Y=r+\beta\sum_zp(z|x,a)\max_{a'}Q(z,a')$, whereas $-\frac12\nabla(Y-Q)^2=(Y-Q)\nabla Q-(Y-Q)\nabla Y$ where the
    maxima are attained once. Two independent next states, one in each factor, give an update with that mean. Both are
    the same for $\beta=0$. With a large $\beta$ the objective can grow along the update: on one state with two actions,
    at $\beta=0.95$, it does.
    """
    semi, two, slope, pull, target = _measure(key, 0.9)
    yield equal("mean update", semi, pull, rtol=1e-10, atol=1e-12)
    # differences over 2e-5: their error is 1e-10 of the third derivative, and 1e-16 over 1e-5 of the value
    yield equal("slope of the objective by differences", -slope, pull - target, rtol=1e-6, atol=1e-8)
    yield equal("mean update with two next states", two, pull - target, rtol=1e-10, atol=1e-12)
    yield equal("their difference: the slope of the target", semi - two, target, rtol=1e-10, atol=1e-12)
    none, _, slope0, _, _ = _measure(key, 0.0)
    yield equal("β = 0: update and slope", none, -slope0, rtol=1e-6, atol=1e-8)
    yield control("β = 0: here 0.9", equal("update and slope", semi, -slope, rtol=1e-6, atol=1e-8))
    yield at_least("change of the objective along the update", _climb(), 0.0)


class _Linear(eqx.Module):
    theta: jax.Array

    def __call__(self, features):
        return features @ self.theta


@jax.jit
def _climb():
    r"""The slope of $\frac12E(Y-Q)^2$ along the update at the values plus $(1,\sqrt2-1)$, relative to the objective."""
    beta, xi = 0.95, 0.3 * np.array([[1.0, 0.0], [np.sqrt(2) - 1, 0.05]])
    features = jnp.linalg.cholesky(limit_kernel(xi))
    values = jnp.array([1.0, beta]) / (1 - beta) + jnp.array([1.0, np.sqrt(2) - 1])
    network = _Linear(jnp.linalg.solve(features, values))
    state, no = jnp.broadcast_to(features, (2, 2, 2)), jnp.zeros(2, bool)
    moves = History(state, jnp.arange(2), jnp.array([1.0, 0.0]), state, no, no)

    def objective(theta):
        q = features @ theta
        return jnp.mean((jnp.array([1.0, 0.0]) + beta * q.max() - q) ** 2) / 2

    return jax.jvp(objective, (network.theta,), (semi_gradient(network, moves, beta).theta,))[1]


@claim(rows=("M21.24",), erratum="The sign: the update goes down the squared error, against its gradient.")
def printed_sign(key):
    r"""The update of Q-learning against the gradient of half the squared error, with its sign as printed.

    As printed (M, Remark 21.3): "there is bias in the sense that" $E[g_k|\theta_k,x_k,a_k]\ne\frac12\nabla_\theta
    (Y(x_k,a_k)-G(x_k,a_k,\theta_k))^2$, with $G$ for $Q$: the bias is the difference of both sides, and it is there
    because $Y$ depends on $\theta$. For $\beta=0$ it does not, so that both sides must be the same; they are of
    opposite sign. With $-\frac12\nabla(Y-Q)^2$ they are the same.
    """
    semi, _, slope, _, _ = _measure(key, 0.0)
    yield printed(equal("β = 0: update and slope", semi, slope, rtol=1e-6, atol=1e-8))
    yield equal("β = 0: update and minus the slope", semi, -slope, rtol=1e-6, atol=1e-8)
