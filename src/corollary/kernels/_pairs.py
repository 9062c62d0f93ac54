"""A network and the two sets of examples between which its kernel is taken, looked at once."""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from corollary.network.apart import output_of, require_apart
from corollary.network.batches import examples
from corollary.network.parts import require_network, split


class Pairs(eqx.Module):
    """Parameters and the rest of a network, and the examples; `x2` None stands for `x1`."""

    params: Any
    fixed: Any
    x1: Any
    x2: Any

    def outputs(self, x):
        """Shape and dtype of the outputs for the examples `x`."""
        return eqx.filter_eval_shape(jax.vmap(eqx.combine(self.params, self.fixed)), x)


def pairs(network, x1, x2, trainable) -> Pairs:
    """One sentence for what is no network, or for examples that it does not take."""
    require_network(network)
    parts, x1 = split(network, trainable), examples("x1", x1)
    if x2 is not None:
        x2 = examples("x2", x2)
        kinds = [jax.tree.map(lambda a: (a.shape[1:], a.dtype), x) for x in (x1, x2)]
        if kinds[0] != kinds[1]:
            raise ValueError(f"x2 must have examples like those of x1, {_spelled(x1)}, got {_spelled(x2)}.")
        output_of(parts.join(), x2)
    require_apart(parts.join(), x1)
    return Pairs(parts.params, parts.fixed, x1, x2)


def switch(name, value) -> bool:
    """`value` as a Python truth value, known before tracing."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def _spelled(x):
    return "shape " + " and ".join(f"{a.shape} of {a.dtype}" for a in jax.tree.leaves(x))
