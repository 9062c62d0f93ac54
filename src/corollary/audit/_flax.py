"""A subject from a Flax module, of either interface: NNX, where a module holds its parameters, or Linen."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit._errors import SubjectError

# how modules are told that they are not being trained, by the names of the arguments of their call
MODES = {"train": False, "training": False, "deterministic": True, "use_running_average": True, "inference": True}


def from_flax(subject, model, loss, train, test=None, *, variables=None, init=None, initial=None, **known):
    """The subject of a Flax module, called on batches in inference mode.

    An NNX module holds its parameters; `init(key)` returns a new module and `initial` is the module that training
    started from. A Linen module comes with `variables`, as from `module.init`; `initial` are the variables that
    training started from, and `init` is the module's own unless given. Batch statistics and all variables that are no
    parameters are fixed. The other keywords are those of `Subject`.
    """
    try:
        from flax import core, linen, nnx
    except ImportError:
        raise SubjectError("from_flax needs Flax: pip install flax.") from None
    if isinstance(model, nnx.Module):
        if variables is not None:
            raise SubjectError("an NNX module holds its parameters: variables belong to Linen modules.")
        return _from_nnx(nnx, subject, model, loss, train, test, init, initial, known)
    if isinstance(model, linen.Module):
        return _from_linen(core, subject, model, variables, loss, train, test, init, initial, known)
    raise SubjectError(f"model must be a Flax module, NNX or Linen, got {type(model).__name__}.")


def _from_nnx(nnx, subject, model, loss, train, test, init, initial, known):
    # a copy: `eval` writes into the module, and the one that was given is not ours
    model = nnx.clone(model)
    model.eval()
    mode = _mode(model)
    graph, state, rest = nnx.split(model, nnx.Param, ...)
    tree = jax.tree.structure(state)

    def parameters(module):
        return nnx.to_pure_dict(nnx.state(module, nnx.Param))

    def apply(params, x):
        # dictionaries and states are both flattened in the order of their keys
        return nnx.merge(graph, jax.tree.unflatten(tree, jax.tree.leaves(params)), rest)(x, **mode)

    return subject(
        apply,
        parameters(model),
        loss,
        train,
        test,
        init=None if init is None else lambda key: parameters(init(key)),
        initial_params=None if initial is None else parameters(initial),
        **known,
    )


def _from_linen(core, subject, module, variables, loss, train, test, init, initial, known):
    if variables is None or "params" not in variables:
        raise SubjectError("a Linen module needs variables=, a mapping with 'params', as module.init returns it.")
    variables = core.unfreeze(variables)
    fixed = {name: value for name, value in variables.items() if name != "params"}
    mode = _mode(module)

    def apply(params, x):
        return module.apply({"params": params, **fixed}, x, **mode)

    known["init"] = _own(core, module, train, mode) if init is None else init
    if initial is not None:
        initial = core.unfreeze(initial)
        known["initial_params"] = initial.get("params", initial)
    return subject(apply, variables["params"], loss, train, test, **known)


def _own(core, module, train, mode):
    """The module's own initialisation; None for one that needs more than a key and an example."""

    def init(key):
        return core.unfreeze(module.init(key, example, **mode))["params"]

    try:
        example = jnp.zeros_like(np.asarray(train[0])[:1])
        jax.eval_shape(init, jax.random.key(0))
    except Exception:
        return None
    return init


def _mode(module) -> dict:
    """The arguments of the module's call that say it is not being trained."""
    return {name: MODES[name] for name in inspect.signature(type(module).__call__).parameters if name in MODES}
