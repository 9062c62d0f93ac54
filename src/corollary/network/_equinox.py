"""A network from an Equinox module that is called with a state."""

import equinox as eqx

from corollary.network.network import Network


def from_equinox(module, state) -> Network:
    """`module(x, state)` in inference mode; what the state holds is fixed."""
    if not isinstance(module, eqx.Module) or not callable(module):
        raise TypeError(f"module must be an Equinox module that can be called, got {type(module).__name__}.")
    if not isinstance(state, eqx.nn.State):
        raise TypeError(f"state must be an equinox.nn.State, got {type(state).__name__}.")
    arrays, static = eqx.partition(eqx.nn.inference_mode(module), eqx.is_array)

    def apply(params, state, x):
        return eqx.combine(params, static)(x, state)[0]

    return Network(apply, arrays, state)
