"""A network from a Keras 3 model, through its stateless call on the JAX backend."""

import inspect
import sys
from contextlib import contextmanager
from functools import partial

import jax
import jax.numpy as jnp

from corollary.network._called import called, chosen, notes_on, raised, tried
from corollary.network.network import Network


def from_keras(model, example, output=None) -> Network:
    """The network of a Keras model that is called on batches, in inference mode, for examples like `example`.

    Parameters are the model's trainable variables under their paths; the others, frozen layers, moving statistics and
    the states of random generators, are buffers.
    """
    keras = sys.modules.get("keras")  # whoever has a model has imported it
    if keras is None or not isinstance(model, keras.layers.Layer):
        raise TypeError(f"model must be a Keras 3 model, got {type(model).__name__}.")
    if keras.backend.backend() != "jax":
        raise ValueError(
            f"Keras runs on {keras.backend.backend()} here, and only its JAX backend can be read: set the environment "
            "variable KERAS_BACKEND=jax before keras is imported (a saved model can be loaded there)."
        )
    if not model.built:
        raise ValueError("the model is not built, and has no parameters yet: call it on a batch, or fit it, first.")
    if not model.trainable_variables:
        raise ValueError("the model has no trainable variables: set trainable = True on what is to be looked at.")
    params, names = _named(model.trainable_variables)
    buffers, others = _named(model.non_trainable_variables)
    arguments = inspect.signature(model.call).parameters
    mode = {"training": False} if "training" in arguments else {}
    # functional models take all their inputs as one argument
    together = len([name for name in arguments if name not in ("training", "mask", "kwargs")]) == 1

    def apply(params, buffers, x):
        def outputs(*inputs, **named):
            values = [params[name] for name in names], [buffers[name] for name in others]
            return model.stateless_call(*values, *inputs, **named)[0]

        if together and isinstance(x, tuple | dict):
            out = outputs(list(x) if isinstance(x, tuple) else x, **mode)
        else:
            out = called(outputs, x, **mode)
        return chosen(out, output)

    norms = _norms(keras, model)

    def recomputed(params, buffers, x):
        with _by_their_batch(norms):
            return apply(params, buffers, x)

    # one that is hidden in a layer of the user's own would keep its stored statistics: then nothing is said
    all_seen = norms and len(norms) == sum(name.endswith("moving_mean") for name in others)
    options = {"batched": True, "notes": notes_on(params), "recomputed": recomputed if all_seen else None}
    return tried(Network(apply, raised(params), raised(buffers), **options), example, "model")


def _norms(keras, model) -> list:
    """The batch normalisations of a model, and of the models in it."""
    if isinstance(model, keras.layers.BatchNormalization):
        return [model]
    return [norm for layer in getattr(model, "layers", ()) for norm in _norms(keras, layer)]


@contextmanager
def _by_their_batch(norms):
    """Batch normalisations by the statistics of their batch, whatever mode the model is called in."""
    own = [norm.call for norm in norms]
    try:
        for norm, call in zip(norms, own, strict=True):
            vars(norm)["call"] = partial(_in_training, call)  # beside the method of the class, which comes back below
        yield
    finally:
        for norm in norms:
            vars(norm).pop("call", None)


def _in_training(call, inputs, training=None, mask=None):
    return call(inputs, training=True, mask=mask)


def _named(variables) -> tuple[dict[str, jax.Array], list[str]]:
    """The values of variables under their paths without the name of the model, which Keras numbers as it goes."""
    paths = [variable.path.split("/") for variable in variables]
    shared = len({path[0] for path in paths}) == 1 and all(len(path) > 2 for path in paths)
    names = []
    for path in paths:
        name = "/".join(path[1:] if shared else path)
        names.append(name if name not in names else f"{name} {len(names)}")
    return dict(zip(names, (jnp.asarray(v.value) for v in variables), strict=True)), names
