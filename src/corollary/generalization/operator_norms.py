r"""The linear layers of any network as the operators that they are: largest singular value and stable rank.

A convolution is a linear map of whole inputs, and its norm depends on their shape. That of the kernel reshaped to a
matrix is another number: of the 3 by 3 average it is 1/3, of the operator on 14 by 14 pixels with zeros around them
0.971, with periodic ones 1. Layers are found in the traced program, so that the network may be written in any way.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import NetworkLike
from corollary.catalog import implements
from corollary.generalization._linear_maps import (
    Convolution,
    Size,
    convolution_above,
    convolution_size,
    is_few,
    map_size,
    matrix_size,
)
from corollary.generalization._signals import Product, matrices_of
from corollary.generalization._slopes import slopes_of
from corollary.network.apart import output_of
from corollary.network.parts import require_network, split


class OperatorNorm(eqx.Module):
    r"""One linear layer: its largest singular value lies between `lower` and `upper`.

    - `name`: where its weight is in the network, such as `layers.0.weight`.
    - `kind`: `"dense"` or `"convolution"`.
    - `inputs`, `outputs`: the shapes of what it maps, of one example.
    - `frobenius`: the root of the sum of the squares of the operator's entries. Of a dense layer that acts at many
      places these are the entries of its matrix, once.
    """

    name: str = eqx.field(static=True)
    kind: str = eqx.field(static=True)
    inputs: tuple[int, ...] = eqx.field(static=True)
    outputs: tuple[int, ...] = eqx.field(static=True)
    lower: Float[Array, ""]
    upper: Float[Array, ""]
    frobenius: Float[Array, ""]

    __repr__ = shown


class StableRank(NamedTuple):
    r"""$\|A\|_F^2/\|A\|_2^2$ of one layer, between `lower` and `upper`."""

    name: str
    lower: jax.Array
    upper: jax.Array

    __repr__ = shown


@implements("T05.30")
def operator_norms(network: NetworkLike, shape: Any, *, key: PRNGKeyArray | None = None) -> tuple[OperatorNorm, ...]:
    r"""The norm of every linear layer of `network` on one input of this `shape`, in the order of the layers.

    `shape` is a tuple such as (3, 32, 32), or a pytree of `jax.ShapeDtypeStruct` for other inputs than one array of
    floating-point numbers. Layers are the products and convolutions of a weight with what depends on the input, with
    any strides, padding, dilation and groups, transposed ones too; periodic padding belongs to the layer after it.

    Dense layers, and convolutions with at most 1024 inputs or outputs, are exact up to rounding. For larger ones
    `lower` is found by Lanczos iteration (from a `key`), and `upper` is a bound by formula: see `_linear_maps`.

    >>> [norm.name for norm in operator_norms(network, (3,))]
    ['layers.0.weight', 'layers.1.weight']
    """
    example = example_of(network, shape)
    split(network)  # its parameters are finite
    network = eqx.nn.inference_mode(network)
    key = jax.random.key(0) if key is None else key
    found: list[OperatorNorm] = []

    def measure(product: Product):
        if product.name is None:  # a constant, and nothing that is trained
            return upper_norm(product)
        kind = "dense" if product.eqn.primitive.name == "dot_general" else "convolution"
        size = _measured(product, jax.random.fold_in(key, len(found)))
        shapes = map(_plain, (product.signal.shape, product.eqn.outvars[0].aval.shape))
        found.append(OperatorNorm(product.name, kind, *shapes, *size))
        return size.upper

    slopes_of(network, example, measure)
    if not found:
        raise ValueError("network must multiply its input by one of its weights, but no such layer was found.")
    return tuple(found)


@implements("T05.30")
def stable_ranks(network: NetworkLike, shape: Any, *, key: PRNGKeyArray | None = None) -> tuple[StableRank, ...]:
    r"""$\|A\|_F^2/\|A\|_2^2$ of every linear layer $A$: between 1 and the rank, and unlike it continuous.

    Arguments as in `operator_norms`.

    >>> ranks = stable_ranks(network, (3,))
    >>> all(1 <= r.lower <= r.upper for r in ranks)
    True
    """
    norms = operator_norms(network, shape, key=key)

    def rank(norm, top):
        # no less than 1 but for rounding; a layer of zeros has no direction at all
        return jnp.where(norm.frobenius > 0, jnp.maximum((norm.frobenius / top) ** 2, 1.0), 0.0)

    return tuple(StableRank(norm.name, rank(norm, norm.upper), rank(norm, norm.lower)) for norm in norms)


def example_of(network, shape):
    """The shape of one example as a pytree of `jax.ShapeDtypeStruct`, with which `network` can be called."""
    require_network(network)
    if shape is None:
        raise ValueError(
            "shape must be that of one input, such as (3, 32, 32), got None: a convolution is another operator, with "
            "another norm, on inputs of another shape."
        )
    if isinstance(shape, int) or (
        isinstance(shape, tuple | list) and all(isinstance(d, int | np.integer) for d in shape)
    ):
        sizes = (shape,) if isinstance(shape, int) else tuple(int(d) for d in shape)
        if any(d < 1 for d in sizes):
            raise ValueError(f"shape must hold positive whole numbers, got {sizes}.")
        leaves = [a for a in jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array))]
        shape = jax.ShapeDtypeStruct(sizes, jnp.result_type(*leaves) if leaves else jnp.result_type(float))
    leaves = jax.tree.leaves(shape)
    if not leaves or not all(hasattr(a, "shape") and hasattr(a, "dtype") for a in leaves):
        raise TypeError(f"shape must be a tuple of sizes or a pytree of jax.ShapeDtypeStruct, got {shape!r}.")
    output_of(network, jax.tree.map(lambda a: jax.ShapeDtypeStruct((1, *a.shape), a.dtype), shape))
    return shape


def upper_norm(product: Product):
    """A bound on the norm of a product from above, without an iteration."""
    if product.signal.isometric:
        return _by_formula(product)
    if is_few(math.prod(product.signal.shape), product.eqn.outvars[0].aval.size):
        return _of_moved(product, jax.random.key(0)).upper
    return _moved_above(product)


def _by_formula(product: Product):
    """From above, for the map from what the weight multiplies."""
    if product.eqn.primitive.name == "dot_general":
        return matrix_size(matrices_of(product), jax.random.key(0)).upper
    if product.operand == 0:  # the kernel is what depends on the input
        return jnp.linalg.norm(product.weight) * math.sqrt(product.eqn.outvars[0].aval.size)
    return convolution_above(product.weight, *_convolution(product))


def _measured(product: Product, key) -> Size:
    dense, isometric = product.eqn.primitive.name == "dot_general", product.signal.isometric
    if dense and isometric:
        return matrix_size(matrices_of(product), key)
    if isometric and product.operand == 1:
        return convolution_size(product.weight, *_convolution(product), key)
    return _of_moved(product, key)


def _of_moved(product: Product, key) -> Size:
    """Where entries were repeated or left out before, the map is that of what they were taken from."""
    shape, dtype = product.signal.shape, product.signal.dtype
    # for inputs that meet an output once at most; what is few is written out
    frobenius = jnp.sqrt(jnp.sum(product.with_weight(product.weight**2)(jnp.ones(shape, dtype))))
    return map_size(product.linear, shape, dtype, key, _moved_above(product), frobenius)


def _moved_above(product: Product):
    sizes, ones = product.with_weight(jnp.abs(product.weight)), jnp.ones(product.signal.shape, product.signal.dtype)
    rows = sizes(ones)
    columns = jax.linear_transpose(sizes, ones)(jnp.ones_like(rows))[0]
    return jnp.minimum(_by_formula(product) * _spread(product), jnp.sqrt(jnp.max(rows) * jnp.max(columns)))


def _spread(product: Product):
    """The norm of the map from the source of the signal to what the weight multiplies."""
    return jnp.ones(()) if product.signal.isometric else product.signal._replace(bound=jnp.ones(())).slope


def _convolution(product: Product):
    return Convolution.of(product.eqn.params), product.eqn.invars[0].aval.shape


def _plain(shape) -> tuple[int, ...]:
    return tuple(d for d in shape if d > 1) or (1,)
