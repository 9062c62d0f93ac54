r"""Control variates for finite sums: gradients of single examples whose noise vanishes at the minimum (SVRG, SAG)."""

import jax
import jax.numpy as jnp

from corollary._validate import one_of, positive, real, whole
from corollary.catalog import implements
from corollary.optimization.minimize import Method
from corollary.optimization.problem import FiniteSum


@implements("M18.24")
def svrg(step, inner: int, *, option: str = "random") -> Method:
    r"""SVRG: $\theta\leftarrow\theta-\eta(\nabla f_i(\theta)-\nabla f_i(\tilde\theta)+\nabla f(\tilde\theta))$ with $i$
    uniform, and a new snapshot $\tilde\theta$ after every `inner` steps.

    `option="last"` takes the last iterate as the snapshot and goes on from there; `"random"`, of which the theorem
    speaks, takes one of the epoch's iterates before each step, uniformly, and starts again from it. The point of the
    trajectory is the iterate for `"last"` and the snapshot for `"random"`.
    """
    eta, inner = positive("step", real("step", step, "")), whole("inner", inner)
    one_of("option", option, ("last", "random"))

    def init(problem, theta):
        _finite_sum(problem)
        # the iterate, the snapshot and its gradient, the next snapshot, when to take it, steps in this epoch
        return theta, theta, problem.gradient(theta), theta, jnp.zeros((), int), jnp.zeros((), int)

    def advance(problem, state, key):
        theta, snapshot, full, kept, take, k = state
        which, when = jax.random.split(key)
        take = jnp.where(k == 0, jax.random.randint(when, (), 0, inner), take)
        kept = jnp.where(k == take, theta, kept)
        i = _draw(problem, which)
        theta = theta - eta * (_gradient(problem, theta, i) - _gradient(problem, snapshot, i) + full)

        def renew():
            new = theta if option == "last" else kept
            return new, new, problem.gradient(new)

        theta, snapshot, full = jax.lax.cond(k + 1 == inner, renew, lambda: (theta, snapshot, full))
        return theta, snapshot, full, kept, take, (k + 1) % inner

    return Method(init, advance, lambda state: state[0 if option == "last" else 1])


@implements("M18.24")
def sag(step) -> Method:
    r"""SAG: refresh the stored gradient of one example, uniformly drawn, and move along the mean of all stored ones.

    The table starts at zero.
    """
    eta = positive("step", real("step", step, ""))

    def init(problem, theta):
        _finite_sum(problem)
        table = jnp.zeros((problem.data[0].shape[0], *theta.shape), theta.dtype)
        return theta, table, jnp.zeros_like(theta)

    def advance(problem, state, key):
        theta, table, mean = state
        i = _draw(problem, key)
        fresh = _gradient(problem, theta, i)
        mean = mean + (fresh - table[i]) / table.shape[0]
        return theta - eta * mean, table.at[i].set(fresh), mean

    return Method(init, advance, lambda state: state[0])


@implements("M18.24")
def svrg_variance(problem: FiniteSum, theta, snapshot):
    r"""The mean squared distance of SVRG's direction from $\nabla f(\theta)$; with `snapshot=None` that of a plain
    stochastic gradient.
    """
    _finite_sum(problem)
    theta = real("theta", theta)
    directions = problem.gradients(theta)
    if snapshot is not None:
        directions = directions - problem.gradients(real("snapshot", snapshot))
    centred = directions - directions.mean(0)
    return jnp.mean(jnp.sum(centred.reshape(centred.shape[0], -1) ** 2, axis=1))


@implements("M18.24")
def gradient_alignment(problem: FiniteSum, theta, key):
    r"""The cosine of the angle between a minibatch gradient, as the oracle shows it, and the full gradient."""
    _finite_sum(problem)
    theta = real("theta", theta)
    one, all_ = jnp.ravel(problem.oracle(theta, key)), jnp.ravel(problem.gradient(theta))
    lengths = jnp.linalg.norm(one) * jnp.linalg.norm(all_)
    return jnp.where(lengths > 0, one @ all_ / jnp.where(lengths > 0, lengths, 1.0), 0.0)


def _finite_sum(problem):
    if not isinstance(problem, FiniteSum):
        raise TypeError(f"problem must be a FiniteSum, got {type(problem).__name__}.")


def _draw(problem, key):
    return jax.random.randint(key, (), 0, problem.data[0].shape[0])


def _gradient(problem, theta, i):
    return jax.grad(problem.term)(theta, *(a[i] for a in problem.data))
