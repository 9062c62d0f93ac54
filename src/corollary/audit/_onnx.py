"""A subject from an ONNX graph, run by jaxonnxruntime.

Shapes inside a graph are fixed when it is converted, so it is converted for one example and mapped over the batch: any
batch size works, and so do graphs that were exported for one example.
"""

import logging
import warnings
from contextlib import contextmanager

import jax
import numpy as np

from corollary.audit import _graph
from corollary.audit._errors import SubjectError, first_line


def from_onnx(subject, path, loss, train, test=None, *, parameters=None, output=None, initial=None, **known):
    """The subject of the network in an ONNX file.

    Parameters are the floating-point initialisers that the graph uses as weights: in products and convolutions, as
    scale and shift of a normalisation, as embeddings, or added or multiplied in as arrays. Statistics of a
    normalisation, bounds, exponents and single numbers are constants. `parameters=` names them where this is not
    right. A last softmax or sigmoid is taken off under `"cross_entropy"`, which applies it itself. `output` names one
    output of several. `initial` is the file of the same graph before training. The other keywords are those of
    `Subject`.
    """
    model = _graph.load(path)
    notes = []
    if loss == "cross_entropy" and (taken := _graph.take_off_probabilities(model, output)):
        notes.append(f"the last {taken} of the graph was taken off, because the cross-entropy applies it itself.")
    output = _graph.only_output(model, output)
    model, given = _graph.runnable(model), model
    weights, constants = _graph.split(model, parameters)
    if not weights:
        raise SubjectError("the ONNX graph has no parameters: no floating-point initialiser is used as a weight.")
    name, shape, dtype = _graph.only_input(model)
    train, test = _typed("train", train, shape, dtype), None if test is None else _typed("test", test, shape, dtype)
    run = _convert(model, name, np.zeros((1, *train[0].shape[1:]), dtype))

    def apply(params, x):
        def one(x):
            return run({**constants, **params}, {name: x[None]})[output][0]

        return jax.vmap(one)(x)

    _agree(given, name, output, train[0][:1], apply(weights, train[0][:1]))
    if initial is not None:
        held = _graph.initialisers(_graph.runnable(_graph.load(initial)))
        missing = [w for w in weights if w not in held]
        if missing:
            raise SubjectError(f"the initial ONNX graph lacks the parameter {missing[0]!r} of the trained one.")
        known["initial_params"] = {w: held[w] for w in weights}
    made = subject(apply, weights, loss, train, test, **known)
    made.notes = (*notes, f"parameters: {', '.join(weights)}.")
    return made


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
        raise SubjectError(
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
        raise SubjectError("the ONNX graph has an operator that is not run as the ONNX standard says: no audit of it.")


def _typed(split, data, shape, dtype):
    """Inputs of the declared type, if they have the declared shape."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise SubjectError(f"{split} must be a pair (x, y) of inputs and targets, got {type(data).__name__}.")
    x = np.asarray(data[0])
    if x.dtype.kind not in "fiub":
        raise SubjectError(f"{split} x must hold numbers, got dtype {x.dtype}.")
    if x.ndim == 0 or x.shape[0] == 0:
        raise SubjectError(f"{split} x must hold at least one example, got shape {x.shape}.")
    if shape is not None:
        fits = len(shape) == x.ndim and all(d in (0, n) for d, n in zip(shape[1:], x.shape[1:], strict=True))
        if not fits:
            wanted = ", ".join(["n", *(str(d or "any") for d in shape[1:])])
            raise SubjectError(f"{split} x must have the shape ({wanted}) of the ONNX input, got {x.shape}.")
    return x.astype(dtype), data[1]
