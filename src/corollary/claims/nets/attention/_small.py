"""Small networks for claims that train them."""

import equinox as eqx
import jax
import jax.numpy as jnp

from corollary.claims._drawn import drawn


def trainable(make, key, *, std: float = 0.25):
    """The network of `make(key)` with normal parameters, and 1 for the scales of normalisations."""

    def norms(net):
        return [m.weight for m in jax.tree.leaves(net, is_leaf=_is_norm) if _is_norm(m)]

    return eqx.tree_at(norms, drawn(make, key, std=std), replace_fn=jnp.ones_like)


def _is_norm(module) -> bool:
    return isinstance(module, eqx.nn.LayerNorm)
