r"""Control variates for finite sums: gradients of single examples whose noise vanishes at the minimum (SVRG, SAG)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PRNGKeyArray, PyTree

from corollary._engine.trees import Draws, draws_from, each, next_key
from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import one_of, whole
from corollary.catalog import implements
from corollary.optimization._arguments import asked_for, positive_of, start_of
from corollary.optimization.minimize import Method, Pointed
from corollary.optimization.problem import FiniteSum


class Epoch(NamedTuple):
    """What SVRG remembers: the snapshot and the gradient of everything there, the iterate that becomes the next
    snapshot and when it is taken, and the number of steps in this epoch.
    """

    snapshot: optax.Params
    slope: optax.Params
    kept: optax.Params
    take: jax.Array
    count: jax.Array
    draws: Draws | None

    __repr__ = shown


@implements("M18.24")
def svrg(
    step: Scalar, inner: int, *, option: str = "random", key: PRNGKeyArray | None = None
) -> optax.GradientTransformationExtraArgs:
    r"""SVRG: $\theta\leftarrow\theta-\eta(\nabla f_i(\theta)-\nabla f_i(\tilde\theta)+\nabla f(\tilde\theta))$ with $i$
    uniform, and a new snapshot $\tilde\theta$ after every `inner` steps.

    $f_i$ is the example, or the batch, of the step: `gradient_fn` gives its gradient at the snapshot, and
    `full_gradient_fn` that of all of $f$, once per snapshot. `option="last"` takes the last iterate as the snapshot and
    goes on from there; `"random"`, of which the theorem speaks, takes one of the epoch's iterates before each step,
    uniformly by `key`, and starts again from it. The `point` is the iterate for `"last"` and the snapshot for
    `"random"`.
    """
    eta, inner = positive_of("step", step), whole("inner", inner)
    one_of("option", option, ("last", "random"))
    if option == "random" and key is None:
        raise TypeError('key must be given with option "random": the snapshots are drawn.')

    def pack(epoch):
        return Pointed(epoch.snapshot, epoch._replace(snapshot=None)) if option == "random" else epoch

    def unpack(state):
        return state.memory._replace(snapshot=state.point) if option == "random" else state

    def init(params):
        zero, still = jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params)
        return pack(Epoch(params, still, params, zero, zero, draws_from(key) if option == "random" else None))

    def update(updates, state, params, *, gradient_fn=None, full_gradient_fn=None, **extra):
        here, everywhere = asked_for("gradient_fn", gradient_fn), asked_for("full_gradient_fn", full_gradient_fn)
        snapshot, slope, kept, take, k, draws = unpack(state)
        slope = jax.lax.cond(k == 0, lambda: each(lambda _, new: new, slope, everywhere(snapshot)), lambda: slope)
        if option == "random":
            when, draws = next_key(draws, key)
            take = jnp.where(k == 0, jax.random.randint(when, (), 0, inner, jnp.int32), take)
            kept = each(lambda kept, theta: jnp.where(k == take, theta, kept), kept, params)
        moves = each(lambda g, at, full: -eta * (g - at + full), updates, here(snapshot), slope)
        last = k + 1 == inner
        if option == "random":
            moves = each(lambda move, kept, theta: jnp.where(last, kept - theta, move), moves, kept, params)
            new = kept
        else:
            new = each(jnp.add, params, moves)
        snapshot = each(lambda old, new: jnp.where(last, new, old), snapshot, new)
        return moves, pack(Epoch(snapshot, slope, kept, take, (k + 1) % inner, draws))

    return optax.GradientTransformationExtraArgs(init, update)


@implements("M18.24")
def sag(step: Scalar) -> Method:
    r"""SAG: refresh the stored gradient of one example, uniformly drawn, and move along the mean of all stored ones.

    The table starts at zero; it has as many rows as there are examples, and so is for `minimize` alone.
    """
    eta = positive_of("step", step)

    def init(problem, theta):
        _finite_sum(problem)
        n = problem.data[0].shape[0]
        table = jax.tree.map(lambda leaf: jnp.zeros((n, *leaf.shape), leaf.dtype), theta)
        return theta, table, jax.tree.map(jnp.zeros_like, theta)

    def advance(problem, state, key):
        theta, table, mean = state
        n = problem.data[0].shape[0]
        i = jax.random.randint(key, (), 0, n)
        fresh = jax.grad(problem.term)(theta, *(a[i] for a in problem.data))
        mean = each(lambda mean, new, rows: mean + (new - rows[i]) / n, mean, fresh, table)
        table = each(lambda rows, new: rows.at[i].set(new), table, fresh)
        return each(lambda theta, mean: theta - eta * mean, theta, mean), table, mean

    return Method(init, advance, lambda state: state[0])


@implements("M18.24")
def svrg_variance(problem: FiniteSum, theta: PyTree, snapshot: PyTree) -> Array:
    r"""The mean squared distance of SVRG's direction from $\nabla f(\theta)$; with `snapshot=None` that of a plain
    stochastic gradient.
    """
    _finite_sum(problem)
    directions = _rows(problem, theta)
    if snapshot is not None:
        directions = directions - _rows(problem, snapshot)
    centred = directions - directions.mean(0)
    return jnp.mean(jnp.sum(centred**2, axis=1))


@implements("M18.24")
def gradient_alignment(problem: FiniteSum, theta: PyTree, *, key: PRNGKeyArray) -> Array:
    r"""The cosine of the angle between a minibatch gradient, as the oracle shows it, and the full gradient."""
    _finite_sum(problem)
    theta = start_of(problem, theta, "theta")
    one, all_ = ravel_pytree(problem.oracle(theta, key=key))[0], ravel_pytree(problem.gradient(theta))[0]
    lengths = jnp.linalg.norm(one) * jnp.linalg.norm(all_)
    return jnp.where(lengths > 0, one @ all_ / jnp.where(lengths > 0, lengths, 1.0), 0.0)


def _rows(problem, theta):
    """The gradients of all examples, one per row."""
    return jax.vmap(lambda slope: ravel_pytree(slope)[0])(problem.gradients(start_of(problem, theta, "theta")))


def _finite_sum(problem):
    if not isinstance(problem, FiniteSum):
        raise TypeError(f"problem must be a FiniteSum, got {type(problem).__name__}.")
