"""What a data set is here."""

from typing import NamedTuple

import jax


class Data(NamedTuple):
    """Features `x` and labels `y`, one example per row."""

    x: jax.Array
    y: jax.Array
