"""A network from a Keras 3 model, through its stateless call on the JAX backend."""

import inspect
import sys

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

    network = Network(apply, raised(params), raised(buffers), batched=True, notes=notes_on(params))
    return tried(network, example, "model")


def _named(variables) -> tuple[dict[str, jax.Array], list[str]]:
    """The values of variables under their paths without the name of the model, which Keras numbers as it goes."""
    paths = [variable.path.split("/") for variable in variables]
    shared = len({path[0] for path in paths}) == 1 and all(len(path) > 2 for path in paths)
    names = []
    for path in paths:
        name = "/".join(path[1:] if shared else path)
        names.append(name if name not in names else f"{name} {len(names)}")
    return dict(zip(names, (jnp.asarray(v.value) for v in variables), strict=True)), names
