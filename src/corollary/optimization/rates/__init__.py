"""What the theorems promise: every rate as a function of the constants in its premises.

The arguments are the premises. `L` is the Lipschitz constant of the gradient, `mu` the constant of strong convexity or
of Polyak and Łojasiewicz, `distance` the distance of the start to a minimiser, `gap` the value at the start less the
minimum, `k` the number of steps (an array gives the whole curve). What a text prints with other constants says so.
"""

import inspect
from typing import NamedTuple

from corollary.optimization.rates import adagrad, adam, flow, gradient_descent, momentum, sgd, variance_reduction

__all__ = ["adagrad", "adam", "flow", "gradient_descent", "listing", "momentum", "sgd", "variance_reduction"]


class Rate(NamedTuple):
    """One line of the listing: the constants that a promise takes, and the promise with its premises in words."""

    arguments: tuple[str, ...]
    promise: str


def listing() -> dict[str, Rate]:
    """Every rate by name, such as `gradient_descent.convex`: its arguments, and its promise with the premises."""
    families = (adagrad, adam, flow, gradient_descent, momentum, sgd, variance_reduction)
    found = {}
    for family in families:
        for name, function in inspect.getmembers(family, inspect.isfunction):
            if function.__module__ == family.__name__ and not name.startswith("_"):
                promise = " ".join(inspect.getdoc(function).split("\n\n")[0].split())
                arguments = tuple(inspect.signature(function).parameters)
                found[f"{family.__name__.rsplit('.', 1)[-1]}.{name}"] = Rate(arguments, promise)
    return found
