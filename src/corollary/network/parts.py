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


def split(network, trainable: Any = None, *, inference: bool = True, name: str = "network") -> Parts:
    """The parameters of `network`, checked, and the rest.

    Parameters are the real floating-point arrays that `trainable` selects: an Equinox filter, that is a function of one
    leaf or a tree of booleans, everything by default. Buffers of a `Network` are never parameters. `inference` puts
    dropout and normalisation into inference mode.
    """
    if inference and not isinstance(network, Network):  # which has been given its mode when it was made
        network = eqx.nn.inference_mode(network)
    chosen, rest = eqx.partition(network, is_real if trainable is None else trainable)
    params, others = eqx.partition(chosen, _mask(chosen))
    if not jax.tree.leaves(params):
        raise ValueError(f"{name} must have at least one floating-point array to differentiate by.")
    checked = jax.tree_util.tree_map_with_path(lambda path, leaf: real(name + jax.tree_util.keystr(path), leaf), params)
    return Parts(checked, jax.tree.map(_found_again, eqx.combine(others, rest)))


def _found_again(leaf):
    """A function among the leaves (an activation, say) is found again by its code.

    Those of JAX stay what they are: it knows some by themselves, such as the maximum in a pooling layer.
    """
    plain = isinstance(leaf, types.FunctionType) and leaf.__module__.partition(".")[0] != "jax"
    return by_code(leaf) if plain else leaf


def require_network(network) -> None:
    """One sentence for what cannot be called with an example."""
    if not callable(network):
        raise TypeError(
            f"network must be callable with one example, got {type(network).__name__}: "
            "make one with Network(apply, params)."
        )


def matched(name: str, candidate, params):
    """The arrays of `candidate` in the structure of `params`; one sentence unless names and shapes are the same.

    Two networks that were read from two files hold functions of their own, and are yet of one kind.
    """
    ours, theirs = (jax.tree_util.tree_leaves_with_path(tree) for tree in (params, candidate))
    names = [[jax.tree_util.keystr(path) for path, _ in leaves] for leaves in (ours, theirs)]
    if names[0] != names[1]:
        other = next((n for n in [*names[0], *names[1]] if (n in names[0]) != (n in names[1])), "another order")
        raise ValueError(f"{name} must have the structure of the network, they differ in {other}.")
    for (path, a), (_, b) in zip(ours, theirs, strict=True):
        if a.shape != b.shape:
            where = name + jax.tree_util.keystr(path)
            raise ValueError(f"{where} must have shape {a.shape} as in the network, got {b.shape}.")
    return jax.tree.unflatten(jax.tree.structure(params), [leaf for _, leaf in theirs])


def takes_key(network: Callable) -> bool:
    """Whether calls of `network` take `key=`."""
    try:
        return "key" in inspect.signature(network).parameters
    except (TypeError, ValueError):
        return False


def is_real(leaf) -> bool:
    """Whether a leaf is a real floating-point array."""
    return isinstance(leaf, jax.Array | np.ndarray | np.generic) and jnp.issubdtype(leaf.dtype, np.floating)


def _mask(tree):
    def node(value):
        if isinstance(value, Network):
            (params, buffers), tree = jax.tree.flatten(value, is_leaf=lambda a: a is not value)
            return tree.unflatten([jax.tree.map(is_real, params), jax.tree.map(lambda _: False, buffers)])
        return is_real(value)

    return jax.tree.map(node, tree, is_leaf=lambda value: isinstance(value, Network))
