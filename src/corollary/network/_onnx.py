"""A network from an ONNX graph, run by jaxonnxruntime.

Shapes inside a graph are fixed when it is converted, so it is converted for one example, in a batch of one: any batch
size works, and so do graphs that were exported for one example.
"""

import logging
import warnings
from contextlib import contextmanager

import jax.numpy as jnp
import numpy as np

from corollary.network import _graph
from corollary.network.apart import first_line
from corollary.network.network import Network


def from_onnx(path, example, output=None, parameters=None) -> Network:
    """The network in an ONNX file (a path, or the model itself), for examples like `example`.

    Parameters are the floating-point initialisers that the graph uses as weights: in products and convolutions, as
    scale and shift of a normalisation, as embeddings, or added or multiplied in as arrays. Statistics of a
    normalisation, bounds, exponents and single numbers are buffers. `parameters` names them where this is not right.
    `output` names an output, or any value inside the graph, such as the logits before a last softmax.
    """
    model = _graph.load(path)
    output = _graph.only_output(model, output)
    model, given = _graph.runnable(model), model
    weights, constants = _graph.split(model, parameters)
    if not weights:
        raise ValueError("the ONNX graph has no parameters: no floating-point initialiser is used as a weight.")
    name, shape, dtype = _graph.only_input(model)
    example = _typed(example, shape, dtype)
    run = _convert(model, name, np.zeros_like(example))

    def apply(params, buffers, x):
        return run({**buffers, **params}, {name: jnp.asarray(x, dtype)[None]})[output][0]

    network = Network(apply, weights, constants, notes=(f"parameters: {', '.join(weights)}.",))
    _agree(given, name, output, example, np.asarray(network(example[0]))[None])
    return network


def _convert(model, name, example):
    """The graph as a function of all initialisers and of the input, by the name of its output."""
    from jaxonnxruntime import call_onnx, config

    logger = logging.getLogger("jaxonnxruntime")
    level = logger.level
    logger.setLevel(logging.ERROR)
    # with one shape of inputs for ever, what is computed from shapes is a constant
    allowed = config.jaxort_only_allow_initializers_as_static_args
    config.update("jaxort_only_allow_initializers_as_static_args", False)
    try:
        with _without_truncation_warnings():
            run, _ = call_onnx.call_onnx_model(model, {name: example})
    except Exception as error:
        fixed = _graph.fixed_batch(model)
        why = f"; it was exported for a fixed batch of {fixed}, export it for one or any number" if fixed > 1 else ""
        raise ValueError(
            f"the ONNX graph does not run on one example of shape {example.shape[1:]}: {first_line(error)}{why}."
        ) from error
    finally:
        config.update("jaxort_only_allow_initializers_as_static_args", allowed)
        logger.setLevel(level)
    outputs = [o.name for o in model.graph.output]

    def named(tensors, inputs):
        with _without_truncation_warnings():
            return dict(zip(outputs, run(tensors, inputs), strict=True))

    return named


@contextmanager
def _without_truncation_warnings():
    """Shapes are 64-bit integers in ONNX: that they become shorter here is no news."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Explicitly requested dtype")
        yield


def _agree(model, name, output, example, ours):
    """One sentence if the converted graph computes something else than ONNX says, seen on one example.

    The two may differ by rounding, which grows with the depth of the network; an operator with another meaning differs
    by more than a hundredth.
    """
    theirs = _graph.reference(model, name, output, example)
    if theirs is None or not np.isfinite(theirs).all():
        return
    if theirs.shape != ours.shape or np.abs(theirs - ours).max() > 1e-2 * np.abs(theirs).max():
        raise ValueError(
            "the ONNX graph cannot be used: run with JAX it gives other numbers than the ONNX standard says."
        )


def _typed(example, shape, dtype):
    """One example of the declared type as a batch of one, if it has the declared shape."""
    x = np.asarray(example)[None]
    if x.dtype.kind not in "fiub":
        raise ValueError(f"example must hold numbers, got dtype {x.dtype}.")
    if shape is not None:
        fits = len(shape) == x.ndim and all(d in (0, n) for d, n in zip(shape[1:], x.shape[1:], strict=True))
        if not fits:
            wanted = ", ".join(str(d or "any") for d in shape[1:])
            raise ValueError(f"example must have the shape ({wanted}) of one input of the graph, got {x.shape[1:]}.")
    return x.astype(dtype)
