"""A network from a Flax module, of either interface: NNX, where a module holds its parameters, or Linen."""

import inspect

import jax

from corollary.network._called import called, chosen, notes_on, raised, tried
from corollary.network._statistics import in_batch_mode, of_linen
from corollary.network.network import Network

# how modules are told that they are not being trained: names of fields and of arguments of their call
MODES = {"train": False, "training": False, "deterministic": True, "use_running_average": True, "inference": True}


def from_flax(module, example, variables=None, output=None) -> Network:
    """The network of a Flax module, called on batches in inference mode.

    An NNX module holds its parameters, a Linen module comes with `variables`, as from `module.init`. Batch statistics
    and all variables that are no parameters are buffers.
    """
    try:
        from flax import core, linen, nnx
    except ImportError:
        raise ValueError("from_flax needs Flax: pip install flax.") from None
    if isinstance(module, nnx.Module):
        if variables is not None:
            raise ValueError("an NNX module holds its own parameters: leave out variables, which is for Linen modules.")
        network = _from_nnx(nnx, module, output)
    elif isinstance(module, linen.Module):
        network = _from_linen(core, module, variables, output)
    else:
        raise TypeError(f"module must be a Flax module, NNX or Linen, got {type(module).__name__}.")
    return tried(network, example, "module")


def _from_nnx(nnx, module, output) -> Network:
    if not callable(module):
        raise TypeError(f"module must be called with an example, and {type(module).__name__} has no __call__.")
    # a copy: `eval` writes into the module, and the one that was given is not ours
    module = nnx.clone(module)
    module.eval()
    mode = _mode(module)
    graph, state, rest = nnx.split(module, nnx.Param, ...)
    if not jax.tree.leaves(state):
        raise ValueError(f"the {type(module).__name__} holds no nnx.Param, and so no parameters.")
    trees = [jax.tree.structure(part) for part in (state, rest)]

    def apply(params, rest, x):
        # dictionaries and states are both flattened in the order of their keys; the variables are made anew, so that
        # the module may write into them in the trace that it is called in
        parts = [jax.tree.unflatten(t, jax.tree.leaves(p)) for t, p in zip(trees, (params, rest), strict=True)]
        return chosen(called(nnx.merge(graph, *parts), x, **mode), output)

    def recomputed(params, rest, x):
        parts = [jax.tree.unflatten(t, jax.tree.leaves(p)) for t, p in zip(trees, (params, rest), strict=True)]
        return chosen(called(in_batch_mode(nnx.merge(graph, *parts)), x, **mode), output)

    normalised = any(isinstance(part, nnx.BatchNorm) for _, part in nnx.iter_modules(module))
    params, buffers = nnx.to_pure_dict(state), nnx.to_pure_dict(rest)
    options = {"batched": True, "recomputed": recomputed if normalised else None, "notes": notes_on(params)}
    return Network(apply, raised(params), raised(buffers), **options)


def _from_linen(core, module, variables, output) -> Network:
    if variables is None or not hasattr(variables, "keys") or "params" not in variables:
        raise ValueError("a Linen module needs variables=, a mapping with 'params', as module.init returns it.")
    variables = core.unfreeze(variables)
    fixed = {name: value for name, value in variables.items() if name != "params"}
    module, notes = _in_inference_mode(module)
    mode = _mode(module)

    def apply(params, fixed, x):
        return chosen(called(lambda *a, **k: module.apply({"params": params, **fixed}, *a, **k), x, **mode), output)

    def outputs(variables, x, **options):
        found, _ = called(lambda *a, **k: module.apply(variables, *a, **k, **options), x, **mode)
        return chosen(found, output)

    recomputed = of_linen(outputs) if "batch_stats" in fixed else None
    params = variables["params"]
    options = {"batched": True, "recomputed": recomputed, "notes": notes + notes_on(params)}
    return Network(apply, raised(params), raised(fixed), **options)


def _in_inference_mode(module):
    """The Linen module with its own fields of the mode turned, and a sentence if one was."""
    own = {name: value for name, value in MODES.items() if _says(module, name)}
    turned = {name: value for name, value in own.items() if getattr(module, name) is not value}
    if not turned:
        return module, ()
    said = ", ".join(f"{name}={value}" for name, value in turned.items())
    return module.clone(**turned), (f"the module was in training mode, and was put into inference mode: {said}.",)


def _mode(module) -> dict:
    """The arguments of the module's call that say it is not being trained, unless a field of the module says so."""
    arguments = inspect.signature(type(module).__call__).parameters
    required = {name for name, argument in arguments.items() if argument.default is inspect.Parameter.empty}
    return {name: MODES[name] for name in arguments if name in MODES and (name in required or not _says(module, name))}


def _says(module, name) -> bool:
    return isinstance(getattr(module, name, None), bool)
