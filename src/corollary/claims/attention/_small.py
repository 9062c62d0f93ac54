"""Small networks for claims that train them."""

import equinox as eqx
import jax
import jax.numpy as jnp

from corollary.claims.attention._draws import randomise


def drawn(make, key, scale: float = 0.25):
    """The network of `make()` with other parameters: independent normal ones, and 1 for the scales of normalisations.

    Drawn at once: to compile the initialisation of a network takes as long as to compile its training.
    """
    shapes = eqx.filter_eval_shape(make)
    net = randomise(jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes), key, scale)

    def norms(net):
        return [m.weight for m in jax.tree.leaves(net, is_leaf=_is_norm) if _is_norm(m)]

    return eqx.tree_at(norms, net, replace_fn=jnp.ones_like)


def _is_norm(module) -> bool:
    return isinstance(module, eqx.nn.LayerNorm)
