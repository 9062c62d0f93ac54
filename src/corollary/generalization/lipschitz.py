r"""How fast a network can change with its input, between a value that it reaches and one that it cannot exceed."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray, PyTree

from corollary._show import shown
from corollary._types import NetworkLike
from corollary._validate import whole
from corollary.catalog import implements
from corollary.generalization._slopes import slopes_of
from corollary.generalization.operator_norms import upper_norm
from corollary.network.apart import require_apart
from corollary.network.batches import each, pair
from corollary.network.parts import require_network, split


class Lipschitz(NamedTuple):
    r"""$\|f(x)-f(x')\|\le L\|x-x'\|$: the least such $L$ is between `lower` and `upper`.

    `unknown` names the operations of the network for which there is no rule; `upper` is infinite if there are some on
    the way to the output.
    """

    lower: jax.Array
    upper: jax.Array
    unknown: tuple[str, ...] = ()

    __repr__ = shown


@implements("T05.31")
def lipschitz(
    network: NetworkLike, data: PyTree, *, key: PRNGKeyArray, batch_size: int = 128, steps: int = 20
) -> Lipschitz:
    r"""Lower and upper value of the Lipschitz constant of `network` in Euclidean norms, over all inputs.

    From below: the largest $\|J(x)v\|$ over the examples of `data = (x, y)`, $v$ after `steps` power iterations on
    $J^\top J$, $J$ the Jacobian; each example is moved by a random step of the size of its rounding, since where
    units have a kink the derivative by rule may be that of no side. From above: operation by operation, norms of linear
    layers times slopes of what is between them; of ReLU layers in a row $\prod_i\|A_i\|$.

    >>> found = lipschitz(network, data, key=key)
    >>> bool(found.lower <= found.upper)
    True
    """
    require_network(network)
    x, _ = pair("data", data)
    split(network)  # its parameters are finite
    network = eqx.nn.inference_mode(network)
    require_apart(network, x)
    above = slopes_of(network, jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), x), upper_norm)
    steps, batch_size = whole("steps", steps), whole("batch_size", batch_size)
    lower = _steepest(network, x, key, steps, batch_size)
    return Lipschitz(lower, above.bound, above.unknown)


@eqx.filter_jit
def _steepest(network, x, key, steps, batch_size):
    inputs, inner = jax.tree.flatten(x)

    def slope(one):
        key, inputs = one
        jitter, start = (
            [
                jax.random.normal(k, a.shape, a.dtype)
                for k, a in zip(jax.random.split(s, len(inputs)), inputs, strict=True)
            ]
            for s in jax.random.split(key)
        )
        point = [a + _rounding(a) * noise for a, noise in zip(inputs, jitter, strict=True)]
        _, push = jax.linearize(lambda *a: network(inner.unflatten(a)), *point)
        pull = jax.linear_transpose(push, *point)

        def again(_, v):
            return _unit(list(pull(push(*v))))

        return _length([push(*jax.lax.fori_loop(0, steps, again, _unit(start)))])

    keys = jax.random.split(key, inputs[0].shape[0])
    return jnp.max(each(lambda batch: jax.vmap(slope)(batch), (keys, inputs), batch_size))


def _rounding(a):
    """The size of a few units in the last place of the largest entry."""
    size = jnp.max(jnp.abs(a))
    return 4 * jnp.finfo(a.dtype).eps * jnp.where(size > 0, size, 1)


def _length(v):
    return jnp.sqrt(sum(jnp.sum(a**2) for a in v))


def _unit(v):
    size = _length(v)
    return [a / jnp.where(size > 0, size, 1).astype(a.dtype) for a in v]
