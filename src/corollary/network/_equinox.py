"""A network from an Equinox module that is called with more than one example: a state, several inputs, a key."""

import inspect

import equinox as eqx
import jax

from corollary.network._called import called, chosen
from corollary.network._statistics import of_equinox
from corollary.network.network import Network


def from_equinox(module, state=None, output=None) -> Network:
    """The module in inference mode; what the state holds is fixed."""
    if not isinstance(module, eqx.Module) or not callable(module):
        raise TypeError(f"module must be an Equinox module that can be called, got {type(module).__name__}.")
    if state is not None and not isinstance(state, eqx.nn.State):
        raise TypeError(f"state must be an equinox.nn.State, got {type(state).__name__}.")
    arrays, static = eqx.partition(eqx.nn.inference_mode(module), eqx.is_array)
    arguments = inspect.signature(module).parameters
    # in inference mode nothing is drawn, but some modules ask for a key all the same
    wants_key = "key" in arguments and arguments["key"].default is inspect.Parameter.empty

    places = [name for name, argument in arguments.items() if argument.kind is argument.POSITIONAL_OR_KEYWORD]
    named = "state" if "state" in arguments or not places else places[-1]

    def apply(params, state, x):
        mode = {"key": jax.random.key(0)} if wants_key else {}
        return chosen(called(eqx.combine(params, static), x, **{named: state}, **mode)[0], output)

    def without_state(params, x):
        mode = {"key": jax.random.key(0)} if wants_key else {}
        return chosen(called(eqx.combine(params, static), x, **mode), output)

    if state is None:
        return Network(without_state, arrays)

    def outputs(module, state, x):
        mode = {"key": jax.random.key(0)} if wants_key else {}
        return chosen(called(module, x, **{named: state}, **mode)[0], output)

    return Network(apply, arrays, state, recomputed=of_equinox(module, outputs))
