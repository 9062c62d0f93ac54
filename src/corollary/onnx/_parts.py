"""Large graphs in parts: each part is a program of its own, and parts that are alike are one.

The time that XLA takes for a program grows with the square of its operators, because it looks at all pairs of them that
share memory; a program that calls others is compiled call by call if calls are not written out (`audit/_compile.py`).
Derivatives of calls are calls again, so that all programs that are made of a graph come in parts. Layers repeat: parts
of a whole number of periods are traced, differentiated and mapped once for all that are alike.
"""

from __future__ import annotations

from collections import ChainMap
from typing import NamedTuple

import jax
import numpy as np

from corollary.onnx._table import Graph, Node, OnnxError, known

#: nodes from which on a graph is taken apart, and about so many of them in a part
LARGE, SIZE = 1000, 64
# longest period that is looked for, and the share of operators that must come again
PERIOD, AGAIN = 512, 0.9
# bytes of a constant that is compared, so that parts with equal ones are alike
COMPARED = 2**20


class Part(NamedTuple):
    """Nodes in a row: names that they read from before and that are read after them, and their form but for names."""

    nodes: tuple[Node, ...]
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    form: tuple


class Program(NamedTuple):
    """A part as a compiled function of arrays to arrays, and its other results by their places."""

    function: object
    fixed: dict


def parts_of(nodes, outputs) -> tuple[Part, ...]:
    """The parts of a large graph in order; none of a small one, or of one with graphs inside its nodes."""
    if len(nodes) < LARGE or any(isinstance(v, Graph) for node in nodes for v in node.attributes.values()):
        return ()
    size = period(nodes)
    size *= -(-SIZE // size)
    wanted, parts = set(outputs), []
    for start in reversed(range(0, len(nodes), size)):
        part = nodes[start : start + size]
        parts.append(_part(part, wanted))
        wanted |= {name for node in part for name in node.inputs}
    return tuple(reversed(parts))


def period(nodes) -> int:
    """After how many nodes the operators come again; 1 if they do not."""
    numbers = {op: i for i, op in enumerate({node.op for node in nodes})}
    ops = np.array([numbers[node.op] for node in nodes])
    longest = min(PERIOD, len(ops) // 2)
    return next((p for p in range(1, longest + 1) if np.mean(ops[p:] == ops[:-p]) >= AGAIN), 1)


def _part(nodes, wanted) -> Part:
    made = dict.fromkeys(name for node in nodes for name in node.outputs if name)
    reads, seen = {}, set()
    for node in nodes:
        reads |= dict.fromkeys(name for name in node.inputs if name and name not in seen)
        seen |= set(node.outputs)
    makes = tuple(name for name in made if name in wanted)
    places = {name: i for i, name in enumerate(dict.fromkeys((*reads, *made)))} | {"": -1}
    form = tuple(
        (
            *(node.op, node.domain, node.version, tuple(map(places.get, node.inputs))),
            *(tuple(map(places.get, node.outputs)), tuple((k, _frozen(v)) for k, v in sorted(node.attributes.items()))),
        )
        for node in nodes
    )
    return Part(tuple(nodes), tuple(reads), makes, (form, tuple(map(places.get, makes))))


def _frozen(value):
    """What two values have in common exactly if they are alike; an object of its own where that is not looked at."""
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fiub" and value.nbytes <= COMPARED:
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return tuple(map(_frozen, value))
    return (type(value), value) if isinstance(value, int | float | str | bool | None) else object()


def run_parts(parts, values, evaluate, programs: dict) -> bool:
    """Run the parts on what `values` holds, and enter what they make; whether that could be done.

    `evaluate(nodes, values)` runs nodes; `programs` keeps what was traced. What does not run in parts is left to who
    runs all nodes, and says why.
    """
    for part in parts:
        given = [values.get(name) for name in part.reads]
        arrays = [i for i, value in enumerate(given) if isinstance(value, jax.Array)]
        rest = {i: value for i, value in enumerate(given) if not isinstance(value, jax.Array)}
        if any(not isinstance(value, np.ndarray | np.generic) for value in rest.values()):
            return False
        shapes = tuple(jax.typeof(given[i]) for i in arrays)
        key = part.form, shapes, tuple((i, _frozen(v)) for i, v in rest.items()), jax.config.jax_enable_x64
        if key not in programs:
            programs[key] = _program(part, arrays, rest, evaluate)
        function, fixed = programs[key]
        try:
            made = iter(function([given[i] for i in arrays]))
        except OnnxError:
            del programs[key]
            return False
        values.update({name: fixed[i] if i in fixed else next(made) for i, name in enumerate(part.makes)})
    return True


def _program(part, arrays, rest, evaluate) -> Program:
    fixed = {}

    def part_of_program(given):
        inputs = {part.reads[i]: value for i, value in (*rest.items(), *zip(arrays, given, strict=True))}
        inner = ChainMap({}, inputs)
        evaluate(part.nodes, inner)
        made = [inner[name] for name in part.makes]
        fixed.update({i: value for i, value in enumerate(made) if not isinstance(value, jax.Array)})
        if any(not isinstance(value, np.ndarray | np.generic) for value in fixed.values()):
            raise OnnxError("what is no array does not pass from part to part.")
        return [value for value in made if isinstance(value, jax.Array)]

    return Program(jax.jit(part_of_program), fixed)


def traced(inputs) -> bool:
    """Whether a graph is being traced, so that its operators have to do with the shapes of its inputs."""
    return any(not known(value) for value in inputs.values())
