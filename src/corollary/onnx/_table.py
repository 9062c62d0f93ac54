"""The table of operators: what an ONNX operator computes, by its domain, its name and the version of its definition.

A handler is `f(node, *inputs)`: `node["axis"]` is an attribute (ONNX's default where it is left out, None where there
is none), an input that is left out is None, and the result is one value or a tuple of them. A value is a NumPy array
where it follows from shapes and constants alone, a JAX array otherwise, a list if it is a sequence. A definition that
changed in version 13 is two handlers, the second with `since=13`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

#: handlers by domain and name, then by the version from which on they hold
OPERATORS: dict[tuple[str, str], dict[int, Callable]] = {}
#: the most elements that a constant may have which a graph makes from a shape
LARGEST = 2**28


class OnnxError(ValueError):
    """One sentence on what is wrong with an ONNX graph, or cannot be done with it."""


class NotStatic(OnnxError):
    """A value is wanted that is only known when the program runs."""


class Graph(NamedTuple):
    """A graph that was read: its nodes in the order of computation, and the arrays that it holds."""

    name: str
    nodes: tuple
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: dict[str, np.ndarray]


class Reference(NamedTuple):
    """An attribute inside a function that is one of the function's own attributes."""

    name: str


@dataclass(frozen=True)
class Node:
    """One use of an operator; `subgraph(graph, *inputs)` runs a graph among its attributes, in the scope around it."""

    op: str
    domain: str
    version: int
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    subgraph: Callable | None = None

    def __getitem__(self, attribute):
        return self.attributes.get(attribute)

    def refuse(self, why: str) -> OnnxError:
        """The error that says what of this operator is not supported."""
        return OnnxError(f"the ONNX operator {self.op} is not supported {why}.")


def operator(*names: str, since: int = 1, domain: str = "") -> Callable:
    """Enter a handler for operators of these names, from version `since` of the operator set on."""

    def register(handler):
        for name in names:
            OPERATORS.setdefault((domain, name), {})[since] = handler
        return handler

    return register


def find(domain: str, op: str, version: int) -> Callable | None:
    """The handler of an operator in a version of its operator set; None if there is none."""
    versions = OPERATORS.get((domain, op), {})
    known = [since for since in versions if since <= version]
    return versions[max(known)] if known else None


def namespace(*values):
    """NumPy if all values are known while tracing, so that the result is known too; otherwise JAX."""
    return jnp if any(isinstance(value, jax.Array) for value in values) else np


def known(value) -> bool:
    """Whether the value does not depend on what the program is run on."""
    return not isinstance(value, jax.core.Tracer)


def static(value, what: str) -> np.ndarray:
    """The value as a NumPy array; one sentence if it is only known when the program runs."""
    if not known(value):
        raise NotStatic(f"{what} must follow from shapes and constants in a graph that is compiled.")
    return np.asarray(value)


def integers(value, what: str) -> list[int]:
    """The value as a list of Python integers."""
    return [int(i) for i in np.ravel(static(value, what))]


def affordable(shape, what: str) -> tuple[int, ...]:
    """The shape, if a constant of it fits into memory."""
    shape = tuple(int(n) for n in shape)
    if any(n < 0 for n in shape) or np.prod(shape, dtype=float) > LARGEST:
        raise OnnxError(f"{what} would make a constant of shape {shape}: the file is damaged, or too large for this.")
    return shape


def is_float(value) -> bool:
    return jnp.issubdtype(value.dtype, jnp.floating)


def floating(value):
    """Floating-point numbers of the width that others of the graph have; halves are raised to single precision."""
    if is_float(value) and value.dtype.itemsize >= 4:
        return value
    return value.astype(np.float32)
