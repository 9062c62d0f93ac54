"""A subject from a PyTorch module, which is exported to ONNX in memory."""

import copy
import logging
import warnings
from contextlib import contextmanager

import numpy as np

from corollary.audit._errors import SubjectError, first_line
from corollary.audit._onnx import from_onnx


def from_torch(subject, module, loss, train, test=None, *, initial=None, **known):
    """The subject of a PyTorch module that is called on batches, in its `eval` mode.

    Parameters are the module's own that require gradients, under their names; buffers and frozen parameters are fixed.
    `initial` is the module that training started from. Data may be arrays or tensors. The other keywords are those of
    `Subject`.
    """
    try:
        import onnxscript  # noqa: F401
        import torch
    except ImportError as error:
        sentence = f"PyTorch modules need torch and onnxscript, and there is no {error.name}: "
        raise SubjectError(f"{sentence}pip install 'corollary[torch]'.") from None
    if not isinstance(module, torch.nn.Module):
        raise SubjectError(f"module must be a torch.nn.Module, got {type(module).__name__}.")
    weights = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if not weights:
        raise SubjectError("the module has no parameters that require gradients.")
    dtype = next(iter(weights.values())).dtype
    train, test = _pair("train", train), None if test is None else _pair("test", test)
    model = _export(torch, module, train[0][:1], dtype)
    held = {t.name for t in model.graph.initializer}
    if initial is not None:
        start = dict(initial.named_parameters()) if isinstance(initial, torch.nn.Module) else {}
        missing = [name for name in weights if name not in start]
        if missing:
            raise SubjectError(f"initial must be a module with the parameters of the trained one, lacks {missing[0]}.")
        known["initial_params"] = {name: _numpy(start[name]) for name in weights if name in held}
    made = from_onnx(subject, model, loss, train, test, parameters=set(weights) & held, **known)
    if unused := [name for name in weights if name not in held]:
        made.notes = (*made.notes, f"parameters that do not enter the outputs are left out: {', '.join(unused)}.")
    return made


def _export(torch, module, x, dtype):
    """The ONNX model of the module for one example."""
    module = copy.deepcopy(module).eval().cpu()
    example = torch.from_numpy(x.copy())
    example = example.to(dtype) if example.is_floating_point() else example
    try:
        with _quiet(), torch.no_grad():
            # not optimised: that would fold normalisations into the weights before them
            return torch.onnx.export(module, (example,), None, dynamo=True, optimize=False, verbose=False).model_proto
    except Exception as error:
        cause = error.__cause__ or error
        raise SubjectError(
            f"the module could not be exported to ONNX on one example of shape {x.shape[1:]}: {first_line(cause)}."
        ) from error


@contextmanager
def _quiet():
    """Without what the exporter has to say about itself."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _pair(split, data):
    """Arrays of a pair that may hold tensors."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise SubjectError(f"{split} must be a pair (x, y) of inputs and targets, got {type(data).__name__}.")
    x, y = map(_numpy, data)
    if x.ndim == 0 or x.shape[0] == 0:
        raise SubjectError(f"{split} x must hold at least one example, got shape {x.shape}.")
    if x.dtype.kind not in "fiub":
        raise SubjectError(f"{split} x must hold numbers, got dtype {x.dtype}.")
    return x, y


def _numpy(value) -> np.ndarray:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
