"""New weights for a network of any kind, drawn without a look at those that it has."""

import jax
import jax.numpy as jnp

from corollary.network.parts import split

#: What vectors are called that multiply, in normalisations: they begin at 1, all others at 0.
FACTORS = ("weight", "scale", "gamma")


def fresh(network, key):
    """`network` with weights that have seen no data: only names and shapes of its arrays count.

    Arrays with two axes or more are normal with variance 2 over the mean of the two fans, because it is not known which
    axis is that of the inputs.
    """
    parts = split(network)
    leaves, tree = jax.tree_util.tree_flatten_with_path(parts.params)
    drawn = [_drawn(path, leaf, jax.random.fold_in(key, i)) for i, (path, leaf) in enumerate(leaves)]
    return parts.join(tree.unflatten(drawn))


def _drawn(path, leaf, key):
    if leaf.ndim < 2:
        name = jax.tree_util.keystr(path[-1:], simple=True)
        return jnp.full_like(leaf, 1 if name.rpartition(".")[2] in FACTORS else 0)
    fan = (leaf.size / leaf.shape[0] + leaf.size / leaf.shape[-1]) / 2
    return (2 / fan) ** 0.5 * jax.random.normal(key, leaf.shape, leaf.dtype)
