"""Three measures of a trained network: by how much it is right, how far it went, and how steady its loss is there."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from corollary._engine.trees import each as leaf_by_leaf
from corollary._engine.trees import normal_like, size_of, squared_norm
from corollary._show import shown
from corollary._types import LossLike, NetworkLike, Scalar
from corollary._validate import concrete, positive, real, whole
from corollary.catalog import implements
from corollary.generalization._outputs import margins_of, outputs_of
from corollary.kernels import empirical_ntk
from corollary.network.apart import require_apart
from corollary.network.batches import each, pair
from corollary.network.loss import of_examples
from corollary.network.parts import matched, require_network, split


@implements("T05.26")
def margins(network: NetworkLike, data: PyTree, *, batch_size: int = 1024) -> Float[Array, "n"]:
    r"""$f(x)_y-\max_{j\ne y}f(x)_j$ of every example of `data = (x, y)`: positive where the class is right, (n,).

    For one output it is $f(x)$ for the labels 1 and $-f(x)$ for the others, which are -1 or 0. The labels of several
    outputs are whole numbers from 0.

    >>> margins(network, (x, jnp.array([0, 1, 1, 0]))).shape
    (4,)
    """
    require_network(network)
    x, y = pair("data", data)
    return margins_of(outputs_of(network, x, whole("batch_size", batch_size)), y)


class Distance(NamedTuple):
    r"""How far the parameters are from where they began: all together, relative to their length there, by array."""

    total: jax.Array
    relative: jax.Array
    arrays: dict[str, jax.Array]

    __repr__ = shown


def distance_from(network: NetworkLike, initial: NetworkLike, *, trainable: PyTree | None = None) -> Distance:
    r"""$\|\theta-\theta_0\|$ from the parameters of `initial`, a network of the same kind, and that of every array.

    >>> float(distance_from(network, network).total)
    0.0
    """
    require_network(network)
    require_network(initial)
    ours = split(network, trainable).params
    theirs = matched("initial", split(initial, trainable, name="initial").params, ours)
    moved = jax.tree.map(lambda a, b: a - b.astype(a.dtype), ours, theirs)
    paths = jax.tree_util.tree_leaves_with_path(moved)
    arrays = {jax.tree_util.keystr(p, simple=True, separator="."): jnp.linalg.norm(a.ravel()) for p, a in paths}
    total, length = jnp.sqrt(squared_norm(moved)), jnp.sqrt(squared_norm(theirs))
    return Distance(total, jnp.where(length > 0, total / jnp.where(length > 0, length, 1), jnp.inf), arrays)


class Stability(NamedTuple):
    r"""The largest change $\gamma$ of an example's loss that was found within the radius, and $\gamma/\rho$.

    `gradient` is the largest length of the gradient of one example's loss, the limit of `constant` for small radii. All
    are values that are reached: the least constant that holds is no smaller.
    """

    gamma: jax.Array
    constant: jax.Array
    gradient: jax.Array

    __repr__ = shown


@implements("T05.07")
def loss_stability(
    network: NetworkLike,
    loss: LossLike,
    data: PyTree,
    radius: Scalar,
    *,
    key: PRNGKeyArray,
    steps: int = 10,
    batch_size: int = 32,
    trainable: PyTree | None = None,
) -> Stability:
    r"""$\gamma=\max|\ell(x,\theta')-\ell(x,\theta)|$ over the examples and over $\|\theta'-\theta\|\le\rho$ = `radius`.

    Sought for every example by itself, by `steps` steps of ascent along the gradient from three points of the sphere:
    up the gradient, down it, and a random one. What is found is a lower bound of $\gamma$: no search proves that there
    is nothing larger.

    >>> bool(loss_stability(network, "squared", data, 0.1, key=key).gamma > 0)
    True
    """
    require_network(network)
    loss, parts, data = of_examples(loss, who="loss_stability"), split(network, trainable), pair("data", data)
    radius = positive("radius", real("radius", radius, ""))
    require_apart(parts.join(), data[0])
    found = _steepest(parts, loss.function, data, radius, key, whole("steps", steps), whole("batch_size", batch_size))
    gamma, gradient = (jnp.max(a) for a in found)
    return Stability(gamma, gamma / radius, gradient)


@eqx.filter_jit
def _steepest(parts, loss, data, radius, key, steps, batch_size):
    def one(example):
        key, x, y = example

        def value(params):
            return loss(parts.join(params)(x), y)

        here, slope = jax.value_and_grad(value)(parts.params)

        def on_sphere(v):
            size = jnp.sqrt(squared_norm(v))
            return leaf_by_leaf(lambda a: a * (radius / jnp.where(size > 0, size, 1)), v)

        def change(shift):
            return jnp.abs(value(leaf_by_leaf(jnp.add, parts.params, shift)) - here)

        def climb(carry, _):
            shift, best = carry
            size, uphill = jax.value_and_grad(change)(shift)
            step = on_sphere(uphill)
            return (on_sphere(leaf_by_leaf(lambda a, b: a + 0.5 * b, shift, step)), jnp.maximum(best, size)), None

        starts = [slope, leaf_by_leaf(jnp.negative, slope), normal_like(key, slope)]
        starts = jax.tree.map(lambda *a: jnp.stack(a), *map(on_sphere, starts))

        def ascend(start):
            (shift, best), _ = jax.lax.scan(climb, (start, jnp.zeros_like(here)), length=steps)
            return jnp.maximum(best, change(shift))

        return jnp.max(jax.vmap(ascend)(starts)), jnp.sqrt(squared_norm(slope))

    keys = jax.random.split(key, jax.tree.leaves(data[0])[0].shape[0])
    return each(lambda batch: jax.vmap(one)(batch), (keys, *data), batch_size)


class ZeroLossSet(NamedTuple):
    """The parameters near a point that fit the same data: the dimension of their set, `size` less the `rank`."""

    dimension: jax.Array
    rank: jax.Array
    size: int

    __repr__ = shown


@implements("T05.06")
def zero_loss_dimension(
    network: NetworkLike, data: PyTree, *, tolerance: Scalar = 1e-3, trainable: PyTree | None = None
) -> ZeroLossSet:
    r"""$p-\operatorname{rank}J$: the dimension of the set of $\theta$ with $f(x_i,\theta)=y_i$ for all $i$, here.

    $J$ is the Jacobian of all outputs on `data = (x, y)` by the $p$ parameters; where its rows are independent the set
    is a smooth surface of this dimension, by the implicit function theorem. The network must fit: no output may be off
    its target by more than `tolerance` times the largest target.

    >>> fitted = jax.vmap(network)(x)
    >>> zero_loss_dimension(network, (x, fitted)).size
    21
    """
    require_network(network)
    parts, (x, y) = split(network, trainable), pair("data", data)
    outputs = outputs_of(parts.join(), x, jax.tree.leaves(x)[0].shape[0])
    y = real("y", y)
    if y.size != outputs.size:
        raise ValueError(f"y must hold a target for every output, {outputs.shape}, got shape {y.shape}.")
    if concrete(outputs) and concrete(y):
        off = float(np.max(np.abs(np.asarray(outputs) - np.asarray(y).reshape(outputs.shape))))
        allowed = float(tolerance) * max(float(np.abs(np.asarray(y)).max()), 1e-300)
        if off > allowed:
            raise ValueError(f"network must fit its data to {allowed:.3g}, an output is off by {off:.3g}: train it on.")
    kernel = empirical_ntk(network, x, trace=False, trainable=trainable)
    n, k = kernel.shape[0], kernel.shape[2]
    values = jnp.linalg.eigvalsh(kernel.transpose(0, 2, 1, 3).reshape(n * k, n * k))
    # squares of singular values: what is below the rounding of the largest is zero
    rank = jnp.sum(values > n * k * jnp.finfo(values.dtype).eps * values[-1])
    return ZeroLossSet(size_of(parts.params) - rank, rank, size_of(parts.params))
