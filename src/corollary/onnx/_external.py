"""Tensors of an ONNX model that lie in files beside it: what they would take is known before any of them is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from corollary._memory import physical_memory
from corollary._text import first_line
from corollary.onnx._table import OnnxError


class Place(NamedTuple):
    """Where a tensor lies: the name of a file, and bytes from which and how many; None are all that follow."""

    tensor: str
    location: str
    offset: int
    length: int | None


def read_external(model, path: Path, room: Callable[[int], None] | None = None) -> None:
    """Put the tensors beside `path` into the model; one sentence if a file is missing, too short or too large.

    `room(size)` is asked beforehand with the number of bytes of all of them, and raises what it does not allow.
    """
    from onnx import external_data_helper

    places = [_place(tensor) for tensor in tensors_of(model) if tensor.external_data]
    missing = sorted({p.location for p in places if not (path.parent / p.location).is_file()})
    if missing:
        raise OnnxError(f"{path} keeps tensors in {', '.join(missing)}, which must lie beside it and does not.")
    # a part of a file that is named often is read as often
    size = sum(_bytes(place, (path.parent / place.location).stat().st_size) for place in places)
    _require_memory(path, size)
    if room is not None:
        room(size)
    try:
        external_data_helper.load_external_data_for_model(model, str(path.parent))
    except Exception as error:
        raise OnnxError(f"the tensors beside {path} cannot be read ({first_line(error)}).") from None


def tensors_of(model) -> Iterator:
    """All tensors of a model: initialisers and attributes, also those of graphs inside nodes and of functions."""
    yield from _in_graph(model.graph)
    for function in model.functions:
        yield from _in_nodes(function.node)


def _in_graph(graph):
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _in_nodes(graph.node)


def _in_nodes(nodes):
    for attribute in (a for node in nodes for a in node.attribute):
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
            yield from _in_graph(graph)


def _place(tensor) -> Place:
    said = {entry.key: entry.value for entry in tensor.external_data}
    try:
        offset, length = int(said.get("offset") or 0), int(said["length"]) if said.get("length") else None
    except ValueError:
        offset, length = -1, None
    if not said.get("location") or offset < 0 or (length is not None and length < 0):
        raise OnnxError(f"the tensor {tensor.name!r} does not say where it lies: write the ONNX file again.")
    return Place(tensor.name, said["location"], offset, length)


def _bytes(place: Place, held: int) -> int:
    """The bytes of a tensor in a file that holds so many; one sentence if there are fewer."""
    length = max(0, held - place.offset) if place.length is None else place.length
    if place.offset + length > held:
        raise OnnxError(
            f"the tensor {place.tensor!r} claims {_spelled(length)} of {place.location} from byte {place.offset:,} on, "
            f"which has {_spelled(held)}: the file is damaged, or was not copied to its end."
        )
    return length


def _require_memory(path, size) -> None:
    memory = physical_memory() or math.inf
    if size > memory:
        raise OnnxError(
            f"the tensors beside {path} are {_spelled(size)}, more than the {_spelled(memory)} of memory of this "
            "machine."
        )


def _spelled(size) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**29 else f"{size:,} bytes"
