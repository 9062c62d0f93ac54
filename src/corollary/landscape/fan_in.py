"""How many numbers a weight is added up with: the fan-in of every parameter, read off the traced program."""

from __future__ import annotations

from math import prod
from typing import Any

import equinox as eqx
import jax
from jaxtyping import PyTree

from corollary._engine.program import depends, trace
from corollary._engine.unroll import PRODUCTS, unrolled
from corollary._types import NetworkLike
from corollary.network.apart import output_of
from corollary.network.parts import require_network, split


def fan_in(network: NetworkLike, x: PyTree, *, trainable: Any = None) -> PyTree:
    r"""For each parameter of `network` how many products with it a unit adds up, 0 where it multiplies no signal.

    This is the $n$ of He's variance $2/n$, whichever way a library lays out a matrix or several of them as one. `x` are
    examples of the network. The tree is that of its parameters, without what else is in it.

    >>> [layer.weight for layer in fan_in(network, x).layers]
    [3, 4]
    """
    require_network(network)
    output_of(network, x)
    parts = split(network, trainable)
    leaves, tree = jax.tree.flatten(parts.params)
    inputs, inner = jax.tree.flatten(jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), x))

    def one(leaves, inputs):
        return eqx.combine(tree.unflatten(leaves), parts.fixed)(inner.unflatten(inputs))

    program = trace(unrolled(one), leaves, inputs)
    signals, found = depends(program, program.inputs), []
    for leaf in program.leaves:
        reached = depends(program, [leaf]) - signals
        found.append(max((_added(program, s, reached) for s in program.steps if s.name in PRODUCTS), default=0))
    return tree.unflatten(found)


def _added(program, step, weights) -> int:
    """How many numbers of a weight one number of a product is made of, 0 where no weight is in it."""
    for i, slot in enumerate(step.ins[:2]):
        if slot in weights and step.ins[1 - i] not in weights:
            if step.name == "conv_general_dilated":
                return program.size(slot) // program.shape(slot)[step.eqn.params["dimension_numbers"].rhs_spec[0]]
            return prod(program.shape(slot)[a] for a in step.eqn.params["dimension_numbers"][0][i])
    return 0
