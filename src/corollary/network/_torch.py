"""A network from a PyTorch module: exported by PyTorch, its operators computed with JAX.

It is exported for one example, in a batch of one, and mapped over batches. Some modules do something else for one
example than for several: what they return for a few examples, in a batch and one by one, is compared.
"""

from __future__ import annotations

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary._text import first_line
from corollary.network.network import Network


def from_torch(module, example, output=None) -> Network:
    """The network of a PyTorch module that is called on batches, in its `eval` mode, for examples like `example`.

    Parameters are the module's own that require gradients, under their names; other tensors are buffers.
    """
    try:
        import torch
    except ImportError:
        raise ValueError("PyTorch modules need torch: pip install 'corollary[torch]'.") from None
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module must be a torch.nn.Module, got {type(module).__name__}.")
    if not any(p.requires_grad for p in module.parameters()):
        raise ValueError("the module has no parameters that require gradients.")
    from corollary.network._aten import export
    from corollary.network._aten import module as called

    one = called.arrays(example)
    first, trained = _shared(module)
    notes = _before(called, module, first)
    with called.inference_mode(torch, module), torch.enable_grad():
        calls = called.tried(torch, module, one)
        program = _exported(torch, export, called, module, one)
        name = _chosen(list(program.outputs), output)
        graph = export.complete(program.graph._replace(outputs=(program.outputs[name],)))
        expected = called.examples(name, calls)
        entries = tuple((node, *program.inputs[node]) for node in graph.inputs)
        entries = tuple((node, held, first.get(place, place) if held else place) for node, held, place in entries)
        tensors = {place: _numpy(program.tensors[place]) for _, held, place in entries if held}
    params = {name: tensors[name] for name in trained if name in tensors}
    buffers = {name: a for name, a in tensors.items() if name not in params}
    if not params:
        raise ValueError("no parameter of the module that requires gradients enters this output.")
    notes += _after(program, calls, trained, params, name)
    shape = expected.outputs.shape[1:]
    apply = _function(graph, entries, one, shape)
    network = Network(apply, params, buffers, notes=notes, recomputed=_recomputed(graph, entries, one, shape))
    _agree(called, network, example, calls, expected, 0.1 if program.half else 1e-3)
    return network


def _function(graph, entries, one, shape):
    """The graph as a function of parameters, buffers and one example."""
    from corollary.network._aten.graph import run

    wanted = tuple((place, a.shape, a.dtype.kind in "iu") for place, a in one.items())

    def apply(params, buffers, x):
        given, held = _placed(x, wanted), {**buffers, **params}
        values = {node: held[place] if of_module else given[place][None] for node, of_module, place in entries}
        return run(graph, values, jnp.result_type(*params.values()))[0].reshape(shape)

    return apply


def _recomputed(graph, entries, one, shape):
    """The outputs of a batch, batch normalisation by its own statistics; None if the module has none of that."""
    from corollary._engine.operators.normalisation import EXAMPLES
    from corollary.network._aten.layers import by_the_batch

    graph = by_the_batch(graph)
    if graph is None:
        return None
    apply = _function(graph, entries, one, shape)
    return lambda params, buffers, x: jax.vmap(lambda a: apply(params, buffers, a), axis_name=EXAMPLES)(x)


def _placed(x, wanted) -> dict:
    """The inputs of one example by number or name, if they are those that the module was read for."""
    places = dict(x) if isinstance(x, Mapping) else dict(enumerate(x if isinstance(x, tuple | list) else (x,)))
    if set(places) != {place for place, _, _ in wanted}:
        names = ", ".join(str(place) for place, _, _ in wanted)
        raise ValueError(
            f"the network takes the inputs {names} that it was read with, got {', '.join(map(str, places))}."
        )
    found = {}
    for place, shape, whole in wanted:
        found[place] = a = jnp.asarray(places[place])
        if a.shape != shape:
            raise ValueError(f"the network takes examples of the shape {shape} that it was read with, got {a.shape}.")
        if whole and jnp.issubdtype(a.dtype, jnp.floating):
            raise TypeError(f"the network takes integers, as it was read with, got dtype {a.dtype}.")
    return found


def _exported(torch, export, called, module, one):
    """The exported program for a batch of one; one sentence if PyTorch refuses."""
    try:
        return export.export(torch, module, *called.inputs(torch, module, {place: a[None] for place, a in one.items()}))
    except Exception as error:
        cause = first_line(error.__cause__ or error)
        if "data-dependent" in str(error).lower() or "DataDependent" in type(error).__name__:
            raise ValueError(
                "the module decides by the values of tensors what to compute next, so that it is no one graph: use "
                f"torch.where or torch.cond there ({cause})."
            ) from error
        raise ValueError(f"torch.export could not follow the module: {cause}.") from error


def _chosen(names, output) -> str:
    """The name of the output: the one that is asked for, by name or number, the only one, or "logits"."""
    if output is not None:
        by_number = [names[output]] if isinstance(output, int) and -len(names) <= output < len(names) else []
        for name in (str(output), *by_number):
            if name in names:
                return name
        raise ValueError(f"output must be one of {', '.join(names) or 'the only tensor'}, got {output!r}.")
    if len(names) == 1:
        return names[0]
    if "logits" in names:
        return "logits"
    raise ValueError(f"the module returns several tensors: choose one with output=, of {', '.join(names)}.")


def _shared(module) -> tuple[dict, list]:
    """The first name of every parameter that has several, by where its numbers are stored; and those to be trained."""
    places, first, trained = {}, {}, []
    for name, p in module.named_parameters(remove_duplicate=False):
        key = (p.untyped_storage().data_ptr(), p.storage_offset(), p.shape, p.stride()) if p.numel() else name
        first[name] = places.setdefault(key, name)
        if p.requires_grad and first[name] not in trained:
            trained.append(first[name])
    return first, trained


def _before(called, module, first) -> tuple[str, ...]:
    """What is said of a module before anything is done to it."""
    notes = []
    if any(part.training for part in module.modules()):
        notes.append("the module was in training mode and is read in eval mode.")
    half = sorted({str(t.dtype).removeprefix("torch.") for t in module.parameters() if called.is_half(t)})
    if half:
        notes.append(f"parameters of type {' and '.join(half)} are raised to float32.")
    for name in dict.fromkeys(first.values()):
        others = [other for other, one in first.items() if one == name and other != name]
        if others:
            notes.append(f"tied parameters are one, named {name}: {', '.join(others)}.")
    return tuple(notes)


def _after(program, calls, trained, params, name) -> tuple[str, ...]:
    """What is said of it once it is exported."""
    notes = []
    if len(program.outputs) > 1:
        notes.append(f"the output is {name}, of {', '.join(program.outputs)}.")
    if program.half:
        notes.append("what the module computes in numbers of 16 bits is computed in those of its parameters.")
    if program.changed:
        notes.append(f"buffers that a call of the module changes keep their values: {', '.join(program.changed)}.")
    if calls.together is None:
        notes.append("the module takes no batches: it is called on one example at a time.")
    unused = [other for other in trained if other not in params]
    if unused:
        notes.append(f"parameters that do not enter the outputs are left out: {', '.join(unused)}.")
    return tuple(notes)


def _numpy(tensor):
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.is_floating_point() and tensor.element_size() < 4 else tensor).numpy().copy()


def _agree(called, network, example, calls, expected, tolerance):
    """One sentence if the module means something else in a batch than alone, or in JAX than in PyTorch."""
    if not expected.apart:
        raise ValueError(
            "the module's output for an example changes with the other examples in its batch: the first axis of inputs "
            "and outputs must be that of the examples (batch_first=True), and nothing may be computed across it."
        )
    batch = calls.batch
    if not isinstance(example, Mapping):
        batch = tuple(batch.values()) if isinstance(example, tuple | list) else batch[0]
    with jax.default_matmul_precision("highest"):
        ours = np.asarray(eqx.filter_jit(lambda network, x: jax.vmap(network)(x))(network, batch), float)
    difference = called.difference(ours, expected.outputs)
    if not difference <= tolerance:
        raise ValueError(
            f"the module cannot be used: with JAX its outputs differ from PyTorch's by {difference:.1e} of the largest."
        )
