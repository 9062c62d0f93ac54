"""Networks with every batch normalisation by the statistics of its batch, and all else in inference mode.

What `Network.recomputed` is for modules of other libraries. Dropout and the like stay off: the outputs differ from
those in inference mode by the statistics alone.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp


def of_equinox(module, outputs):
    """For an Equinox module with `equinox.nn.BatchNorm` in it; `outputs(module, state, x)` calls it with one example.

    None without such layers, or if they name several axes of examples.
    """
    norms = _norms(module)
    names = {name for norm in norms for name in _listed(norm.axis_name)}
    if len(names) != 1:
        return None

    def training(node):
        return eqx.tree_at(lambda norm: norm.inference, node, False) if _is_norm(node) else node

    static = eqx.partition(jax.tree.map(training, eqx.nn.inference_mode(module), is_leaf=_is_norm), eqx.is_array)[1]

    def recomputed(params, state, x):
        module = eqx.combine(params, static)
        for norm in _norms(module):
            if norm.mode == "ema":  # the first batch is normalised by itself, the following by running statistics
                state = state.set(norm.ema_first_time_index, jnp.array(True))
        return jax.vmap(lambda one: outputs(module, state, one), axis_name=next(iter(names)))(x)

    return recomputed


def of_linen(outputs):
    """For a Linen module; `outputs(variables, x, **options)` applies it to a batch and takes `mutable`."""
    from flax import linen

    def by_its_batch(call, args, kwargs, context):
        if isinstance(context.module, linen.BatchNorm) and context.method_name == "__call__":
            # the module is one of this call alone; it may say where its statistics come from, and so may the caller
            object.__setattr__(context.module, "use_running_average", None)
            return call(args[0], **(kwargs | {"use_running_average": False}))
        return call(*args, **kwargs)

    def recomputed(params, fixed, x):
        with linen.intercept_methods(by_its_batch):
            return outputs({"params": params, **fixed}, x, mutable=list(fixed))

    return recomputed


def in_batch_mode(module):
    """An NNX module, which is written into, with its `BatchNorm` layers by the statistics of the batch."""
    from flax import nnx

    for _, part in nnx.iter_modules(module):
        if isinstance(part, nnx.BatchNorm):
            part.use_running_average = False
    return module


def _is_norm(node) -> bool:
    return isinstance(node, eqx.nn.BatchNorm)


def _norms(module):
    return [node for node in jax.tree.leaves(module, is_leaf=_is_norm) if _is_norm(node)]


def _listed(name):
    return name if isinstance(name, Sequence) and not isinstance(name, str) else (name,)
