"""ONNX graphs run with JAX."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from corollary.onnx._graph import function_of
from corollary.onnx._model import Model, read
from corollary.onnx._table import OnnxError, floating, is_float


def run(model: str | Path | bytes | Any, inputs: Mapping[str, ArrayLike]) -> list:
    """The outputs of an ONNX model (a path, the bytes of one, or a ModelProto) for inputs by name.

    The graph is a pure function of JAX arrays: `run` can be differentiated and compiled in its inputs. Shapes, and what
    follows from them and from constants, are computed while it is traced. Integers that a graph reads shapes from must
    then be NumPy arrays.
    """
    read_model = read(model)
    return function_of(read_model)({}, checked(read_model, inputs))


def checked(model: Model, inputs) -> dict:
    """The inputs as arrays by name, floating-point ones of JAX; one sentence if one is missing or too many."""
    graph = model.graph
    wanted = [name for name in graph.inputs if name not in graph.tensors]
    missing, unknown = [n for n in wanted if n not in inputs], [n for n in inputs if n not in graph.inputs]
    if missing:
        raise OnnxError(f"the ONNX graph needs the inputs {', '.join(wanted)}: {', '.join(missing)} is missing.")
    if unknown:
        raise OnnxError(f"the ONNX graph has the inputs {', '.join(wanted)}: {', '.join(unknown)} is none of them.")
    return {name: value_of(value) for name, value in inputs.items()}


def value_of(value):
    """An input as the interpreter keeps it: floats of JAX, other NumPy arrays as they are, sequences as lists."""
    if value is None or isinstance(value, list):
        return value if value is None else [value_of(v) for v in value]
    value = value if isinstance(value, jax.Array) else np.asarray(value)
    return jnp.asarray(floating(value)) if is_float(value) else value
