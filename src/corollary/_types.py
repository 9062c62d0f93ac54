"""The types of the public signatures that have a name of their own; arrays are jaxtyping's, with their shapes.

Annotations are never evaluated when a module is imported: they cost nothing, and are for readers and type checkers.
What they say about shapes is what `corollary._validate` checks: tests/test_types.py compares the two.
"""

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias

from jaxtyping import ArrayLike, Float

#: One real number: a Python number, a NumPy scalar, or an array without axes.
Scalar: TypeAlias = Float[ArrayLike, ""]

#: The losses of `corollary.network.LOSSES`.
LossName: TypeAlias = Literal[
    "cross_entropy", "binary_cross_entropy", "squared", "absolute", "huber", "logistic", "hinge"
]

#: What stands in the place of the loss: a name, `loss(output, target)` of one example, or a `BatchLoss`, which is a
#: function of a network and a batch.
LossLike: TypeAlias = LossName | Callable[[Any, Any], Any]


class NetworkLike(Protocol):
    """A network: a pytree that is called with one example, an array or a pytree of arrays."""

    def __call__(self, x: Any, /) -> Any: ...
