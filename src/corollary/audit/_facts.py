"""What is known of the training of a subject, checked, and numbers of 16 bits raised."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary._validate import real
from corollary.audit._errors import SubjectError
from corollary.network.parts import is_real


def _is_half(leaf) -> bool:
    return is_real(leaf) and leaf.dtype.itemsize == 2


def raised(tree):
    """Numbers of 16 bits as numbers of 32: curvatures and their intervals need more digits than three."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32) if _is_half(leaf) else leaf, tree)


def said_of_halves(network) -> tuple[str, ...]:
    if any(map(_is_half, jax.tree.leaves(network))):
        return ("weights of 16 bits were raised to 32: what rounding to 16 does is not looked at.",)
    return ()


def checked_optimiser(optimiser):
    if optimiser is None or isinstance(optimiser, optax.GradientTransformation):
        return optimiser
    raise SubjectError(f"optimiser must be an Optax transformation, such as optax.adam(1e-3), got {optimiser!r}.")


def checked_history(history) -> dict[str, Any] | None:
    if history is None:
        return None
    history = history if isinstance(history, Mapping) else {"loss": history}
    # a training that diverged has a history with infinities: they are what happened
    return {str(k): np.asarray(real(f"history {k!r}", v, "steps", finite=False)) for k, v in history.items()}
