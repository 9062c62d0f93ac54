"""Tables that whole-number inputs are looked up in: embeddings, found in the traced program of one example."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax

from corollary._engine.program import Program, depends, trace

# what hands tokens on as they are, in another shape or type
SAME = (
    "convert_element_type",
    "reshape",
    "broadcast_in_dim",
    "squeeze",
    "expand_dims",
    "copy",
    "copy_p",
    "stop_gradient",
)


class Lookup(NamedTuple):
    """One look-up: the leaf of the inputs whose numbers are looked up, how many rows there are, where the rows go."""

    leaf: int
    rows: int
    slot: int


class Read(NamedTuple):
    """The program of one example, the arrays of the network, and what is looked up in tables of its own."""

    program: Program
    arrays: list
    found: tuple[Lookup, ...]


def read(network, x) -> Read:
    """`network` on one of the examples `x`, traced."""
    arrays, rest = eqx.partition(network, eqx.is_array)
    leaves, form = jax.tree.flatten(arrays)
    inputs, kind = jax.tree.flatten(jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), x))

    def one(leaves, inputs):
        return eqx.combine(form.unflatten(leaves), rest)(kind.unflatten(inputs))

    program = trace(one, leaves, inputs)
    return Read(program, leaves, tuple(_lookups(program)))


def _lookups(program: Program):
    """Look-ups of an input, taken as it is, in a table that does not depend on the inputs.

    A negative number is counted from the end by an addition and a choice between both, which are followed too; so are
    products of a table with one-hot rows. What is computed from tokens in another way is no token any more.
    """
    moving = depends(program, program.inputs)
    whole = {slot: i for i, slot in enumerate(program.inputs) if program.avals[slot].dtype.kind in "iu"}
    shifted: dict[int, int] = {}
    columns: dict[int, int] = {}  # of an array of indices: which of them are the tokens
    counted: set[int] = set()
    hot: dict[int, int] = {}
    for step in program.steps:
        out = step.outs[0]
        tokens = [s for s in step.ins if s in whole]
        if step.name == "iota":
            counted.add(out)
        elif step.name in SAME:
            first = step.ins[0]
            for known in (whole, hot, columns):
                if first in known:
                    known[out] = known[first]
            if first in counted:
                counted.add(out)
        elif step.name == "add" and len(tokens) == 1:
            shifted[out] = whole[tokens[0]]
        elif step.name == "select_n" and tokens:
            sources = {whole.get(s, shifted.get(s)) for s in step.ins[1:]}
            if len(sources) == 1 and None not in sources:
                whole[out] = sources.pop()
        elif step.name == "concatenate" and len(tokens) == 1 and not moving.intersection({*step.ins} - {*tokens}):
            whole[out], columns[out] = whole[tokens[0]], step.ins.index(tokens[0])
        elif step.name == "eq" and len(tokens) == 1 and counted.intersection(step.ins):
            hot[out] = whole[tokens[0]]
        elif step.name == "dot_general":
            yield from _product(program, step, hot, moving)
        elif step.name == "gather" and step.ins[1] in whole and step.ins[0] not in moving:
            axis = step.eqn.params["dimension_numbers"].start_index_map[columns.get(step.ins[1], 0)]
            if step.eqn.params["slice_sizes"][axis] == 1:
                yield Lookup(whole[step.ins[1]], program.shape(step.ins[0])[axis], out)


def _product(program, step, hot, moving):
    """A table times one-hot rows, summed over all that the numbers may be."""
    for side, slot in enumerate(step.ins):
        summed = step.eqn.params["dimension_numbers"][0][side]
        if slot in hot and step.ins[1 - side] not in moving and summed == (len(program.shape(slot)) - 1,):
            yield Lookup(hot[slot], program.shape(slot)[-1], step.outs[0])
