"""A list of all rates with what they take and what they promise, read from their signatures and docstrings."""

import inspect
from typing import NamedTuple

from corollary.optimization.rates import adagrad, adam, flow, gradient_descent, momentum, sgd, variance_reduction


class Rate(NamedTuple):
    """One line of the listing: the constants that a promise takes, and the promise with its premises in words."""

    arguments: tuple[str, ...]
    promise: str


def listing() -> dict[str, Rate]:
    """Every rate by name, such as `gradient_descent.convex`: its arguments, and its promise with the premises.

    >>> len(listing()) > 20
    True
    """
    families = (adagrad, adam, flow, gradient_descent, momentum, sgd, variance_reduction)
    found = {}
    for family in families:
        for name, function in inspect.getmembers(family, inspect.isfunction):
            if function.__module__ == family.__name__ and not name.startswith("_"):
                promise = " ".join(inspect.getdoc(function).split("\n\n")[0].split())
                arguments = tuple(inspect.signature(function).parameters)
                found[f"{family.__name__.rsplit('.', 1)[-1]}.{name}"] = Rate(arguments, promise)
    return found
