"""A subject from a PyTorch module, which is exported to ONNX in memory."""

import copy
import logging
import warnings
from contextlib import contextmanager

import numpy as np

from corollary.network._onnx import from_onnx
from corollary.network.apart import first_line
from corollary.network.network import Network


def from_torch(module, example) -> Network:
    """The network of a PyTorch module that is called on batches, in its `eval` mode, for examples like `example`.

    Parameters are the module's own that require gradients, under their names; other tensors are buffers.
    """
    try:
        import onnxscript  # noqa: F401
        import torch
    except ImportError as error:
        sentence = f"PyTorch modules need torch and onnxscript, and there is no {error.name}: "
        raise ValueError(f"{sentence}pip install 'corollary[torch]'.") from None
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module must be a torch.nn.Module, got {type(module).__name__}.")
    weights = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if not weights:
        raise ValueError("the module has no parameters that require gradients.")
    example = example.detach().cpu().numpy() if hasattr(example, "detach") else np.asarray(example)
    if example.dtype.kind not in "fiub":
        raise ValueError(f"example must hold numbers, got dtype {example.dtype}.")
    model = _export(torch, module, example[None], next(iter(weights.values())).dtype)
    held = {t.name for t in model.graph.initializer}
    network = from_onnx(model, example, parameters=set(weights) & held)
    unused = [name for name in weights if name not in held]
    if not unused:
        return network
    note = f"parameters that do not enter the outputs are left out: {', '.join(unused)}."
    return Network(network.apply, network.params, network.buffers, notes=(*network.notes, note))


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
        raise ValueError(
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
