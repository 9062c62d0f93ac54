"""A network from a Flax module, of either interface: NNX, where a module holds its parameters, or Linen."""

import inspect

import jax
import jax.numpy as jnp

from corollary.network.network import Network

# how modules are told that they are not being trained, by the names of the arguments of their call
MODES = {"train": False, "training": False, "deterministic": True, "use_running_average": True, "inference": True}


def from_flax(module, example, variables=None) -> Network:
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
        network = _from_nnx(nnx, module)
    elif isinstance(module, linen.Module):
        network = _from_linen(core, module, variables)
    else:
        raise TypeError(f"module must be a Flax module, NNX or Linen, got {type(module).__name__}.")
    jax.eval_shape(network, jnp.asarray(example))  # whatever does not fit is said now
    return network


def _from_nnx(nnx, module) -> Network:
    # a copy: `eval` writes into the module, and the one that was given is not ours
    module = nnx.clone(module)
    module.eval()
    mode = _mode(module)
    graph, state, rest = nnx.split(module, nnx.Param, ...)
    tree = jax.tree.structure(state)

    def apply(params, rest, x):
        # dictionaries and states are both flattened in the order of their keys
        return nnx.merge(graph, jax.tree.unflatten(tree, jax.tree.leaves(params)), rest)(x, **mode)

    return Network(apply, nnx.to_pure_dict(state), rest, batched=True)


def _from_linen(core, module, variables) -> Network:
    if variables is None or "params" not in variables:
        raise ValueError("a Linen module needs variables=, a mapping with 'params', as module.init returns it.")
    variables = core.unfreeze(variables)
    fixed = {name: value for name, value in variables.items() if name != "params"}
    mode = _mode(module)

    def apply(params, fixed, x):
        return module.apply({"params": params, **fixed}, x, **mode)

    return Network(apply, variables["params"], fixed, batched=True)


def _mode(module) -> dict:
    """The arguments of the module's call that say it is not being trained."""
    return {name: MODES[name] for name in inspect.signature(type(module).__call__).parameters if name in MODES}
