"""Elementary functions that take a number of any kind: Python, NumPy, JAX, dual, on the tape or a symbol.

A number that knows its own `tanh` (a method of that name) uses it; JAX arrays go to JAX and all else to NumPy. So one
function written with these can be evaluated, differentiated forwards, backwards and by a complex step, and recorded.
"""

import jax
import jax.numpy as jnp
import numpy as np


def _function(name: str):
    def apply(x):
        if (own := getattr(x, name, None)) is not None:
            return own()
        if isinstance(x, jax.Array):
            return getattr(jnp, name)(x)
        try:
            return getattr(np, name)(x)
        except (TypeError, ValueError):
            raise TypeError(f"{name} takes a number or an array, got {type(x).__name__}.") from None

    apply.__name__, apply.__doc__ = name, f"The function {name} of a number of any kind."
    return apply


exp = _function("exp")
log = _function("log")
tanh = _function("tanh")
sin = _function("sin")
cos = _function("cos")


def sigmoid(x):
    r"""$1/(1+e^{-x})=\frac12(1+\tanh\frac x2)$: the second form overflows nowhere, also off the real line."""
    return x.sigmoid() if hasattr(x, "sigmoid") else (tanh(x * 0.5) + 1.0) * 0.5
