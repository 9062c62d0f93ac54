"""Sequences and optional values: they are Python lists and None while a graph is traced."""

from __future__ import annotations

import numpy as np

from corollary.onnx._operators.shapes import split
from corollary.onnx._table import OnnxError, integers, namespace, operator, static


@operator("SequenceConstruct")
def sequence_construct(node, *xs):
    return list(xs)


@operator("SequenceEmpty")
def sequence_empty(node):
    return []


def place(sequence, position, default, most):
    """A position in a sequence that may be counted from its end."""
    position = default if position is None else int(static(position, "a position in a sequence").reshape(()))
    if not -len(sequence) <= position <= most:
        raise OnnxError(f"position {position} lies outside a sequence of {len(sequence)} values.")
    return position + len(sequence) if position < 0 else position


@operator("SequenceAt")
def sequence_at(node, sequence, position):
    return sequence[place(sequence, position, -1, len(sequence) - 1)]


@operator("SequenceInsert")
def sequence_insert(node, sequence, x, position=None):
    at = place(sequence, position, len(sequence), len(sequence))
    return [*sequence[:at], x, *sequence[at:]]


@operator("SequenceErase")
def sequence_erase(node, sequence, position=None):
    at = place(sequence, position, -1, len(sequence) - 1)
    return [*sequence[:at], *sequence[at + 1 :]]


@operator("SequenceLength")
def sequence_length(node, sequence):
    return np.asarray(len(sequence), np.int64)


@operator("ConcatFromSequence")
def concat_from_sequence(node, sequence):
    xp = namespace(*sequence)
    return (xp.stack if node["new_axis"] else xp.concatenate)(sequence, axis=node["axis"])


@operator("SplitToSequence")
def split_to_sequence(node, x, lengths=None):
    """Parts along an axis of the given lengths, of one given length, or single slices, with or without their axis."""
    axis, n = node["axis"], x.shape[node["axis"]]
    if lengths is None:
        parts = split(node, x, np.ones(n, np.int64))
        return [part if node["keepdims"] else namespace(x).squeeze(part, axis) for part in parts]
    given = integers(lengths, "the lengths of SplitToSequence")
    if lengths.ndim == 0:
        (each,) = given
        given = [each] * (n // each) + ([n % each] if n % each else [])
    return list(split(node, x, np.asarray(given)))


@operator("SequenceMap")
def sequence_map(node, sequence, *others):
    """A graph applied to each value of a sequence, and to the others of the same place or as a whole."""
    results = [
        node.subgraph(node["body"], value, *(other[i] if isinstance(other, list) else other for other in others))
        for i, value in enumerate(sequence)
    ]
    return tuple(list(column) for column in zip(*results, strict=True)) or tuple([] for _ in node.outputs)


@operator("Optional", "OptionalGetElement")
def optional(node, x=None):
    if x is None and node.op == "OptionalGetElement":
        raise OnnxError("the ONNX graph takes the value of an optional that holds none.")
    return x


@operator("OptionalHasElement")
def optional_has_element(node, x=None):
    return np.asarray(x is not None)
