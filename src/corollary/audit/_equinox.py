"""A subject from an Equinox module."""

import equinox as eqx
import jax

from corollary.audit._errors import SubjectError


def from_equinox(
    subject,
    model,
    loss,
    train,
    test=None,
    *,
    state=None,
    trainable=eqx.is_inexact_array,
    init=None,
    initial=None,
    **known,
):
    """The subject of a module that takes one example, as is usual with Equinox: it is mapped over the batch.

    The module is put into inference mode. `state` is the `equinox.nn.State` of a module with batch normalisation, which
    is then called as `model(x, state)`. Parameters are what the filter `trainable` selects, all floating-point arrays
    unless told otherwise; the rest is fixed. `init(key)` returns a new module and `initial` is the module that training
    started from. The other keywords are those of `Subject`.
    """
    if not isinstance(model, eqx.Module) or not callable(model):
        raise SubjectError(f"model must be an Equinox module that can be called, got {type(model).__name__}.")
    params, fixed = eqx.partition(eqx.nn.inference_mode(model), trainable)

    def apply(params, x):
        one = eqx.combine(params, fixed)
        if state is None:
            return jax.vmap(lambda x: one(x))(x)
        return jax.vmap(lambda x: one(x, state)[0], axis_name="batch")(x)

    return subject(
        apply,
        params,
        loss,
        train,
        test,
        init=None if init is None else lambda key: eqx.filter(eqx.nn.inference_mode(init(key)), trainable),
        initial_params=None if initial is None else eqx.filter(eqx.nn.inference_mode(initial), trainable),
        **known,
    )
