"""Sizes of what a graph makes, looked at before it is made where it would be made at once."""

from __future__ import annotations

import math

import jax
import numpy as np

from corollary.onnx._table import LARGEST, Graph, Node, affordable

SMALL = 64  # numbers of a constant that others may take their shapes from


def require_room(node: Node, handler, inputs) -> None:
    """One sentence if the operator would make too much of constants alone, which are computed while tracing."""
    if any(not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub" for value in inputs):
        return  # what is traced takes no room yet
    # no operator makes more of constants than all pairs, triples, ... of their numbers, unless it reads a shape
    if math.prod(value.size + 1 for value in inputs) <= LARGEST:
        return
    if any(isinstance(value, Graph) for value in node.attributes.values()):
        return
    large = [i for i, value in enumerate(inputs) if value.size > SMALL]

    def shaped(*values):
        return handler(node, *(dict(zip(large, values, strict=True)).get(i, v) for i, v in enumerate(inputs)))

    try:
        with jax.enable_x64(True):
            made = jax.eval_shape(shaped, *(jax.ShapeDtypeStruct(inputs[i].shape, inputs[i].dtype) for i in large))
    except Exception:  # it needs the numbers themselves, or says what is wrong when it runs
        return
    held(node, inputs, jax.tree.leaves(made))


def held(node: Node, inputs, outputs) -> None:
    """One sentence if an output is larger than anything that may be made, and than what it was made of."""
    most = max((math.prod(np.shape(value)) for value in inputs if hasattr(value, "shape")), default=0)
    for value in outputs:
        if hasattr(value, "shape") and math.prod(value.shape) > max(LARGEST, most):
            affordable(value.shape, node.op)
