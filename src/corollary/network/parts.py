"""A network taken apart into the arrays that are trained and all the rest, and put together again."""

import inspect
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary._validate import real
from corollary.network._code import by_code
from corollary.network.network import Network


class Parts(NamedTuple):
    """The trained arrays of a network, and the rest; each has None where the other has something."""

    params: Any
    fixed: Any

    @property
    def size(self) -> int:
        """The number of parameters."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.params))

    def join(self, params=None):
        """The network with these parameters, or with its own."""
        return eqx.combine(self.params if params is None else params, self.fixed)


def split(network, trainable: Any = None, *, inference: bool = True) -> Parts:
    """The parameters of `network`, checked, and the rest.

    Parameters are the real floating-point arrays that `trainable` selects: an Equinox filter, that is a function of one
    leaf or a tree of booleans, everything by default. Buffers of a `Network` are never parameters. `inference` puts
    dropout and normalisation into inference mode.
    """
    network = eqx.nn.inference_mode(network) if inference else network
    chosen, rest = eqx.partition(network, is_real if trainable is None else trainable)
    params, others = eqx.partition(chosen, _mask(chosen))
    if not jax.tree.leaves(params):
        raise ValueError("network must have at least one floating-point array to differentiate by.")
    checked = jax.tree_util.tree_map_with_path(
        lambda path, leaf: real("network" + jax.tree_util.keystr(path), leaf), params
    )
    # functions among the leaves (activations, say) are found again by their code
    fixed = jax.tree.map(
        lambda leaf: by_code(leaf) if isinstance(leaf, types.FunctionType) else leaf, eqx.combine(others, rest)
    )
    return Parts(checked, fixed)


def require_network(network) -> None:
    """One sentence for what cannot be called with an example."""
    if not callable(network):
        raise TypeError(
            f"network must be callable with one example, got {type(network).__name__}: Network(apply, params) is."
        )


def takes_key(network: Callable) -> bool:
    """Whether calls of `network` take `key=`."""
    try:
        return "key" in inspect.signature(network).parameters
    except (TypeError, ValueError):
        return False


def is_real(leaf) -> bool:
    """Whether a leaf is a real floating-point array."""
    return eqx.is_array_like(leaf) and hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, np.floating)


def _mask(tree):
    def node(value):
        if isinstance(value, Network):
            selected = jax.tree.map(is_real, value.params), jax.tree.map(lambda _: False, value.buffers)
            return eqx.tree_at(lambda n: (n.params, n.buffers), value, selected, is_leaf=lambda a: a is None)
        return is_real(value)

    return jax.tree.map(node, tree, is_leaf=lambda value: isinstance(value, Network))
