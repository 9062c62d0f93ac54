"""What stands in the place of the loss: a name, a function of one output and one target, or a `BatchLoss`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray, PyTree

from corollary._types import NetworkLike
from corollary._validate import one_of
from corollary.network._code import by_code
from corollary.network.losses import LOSSES

REDUCTIONS = ("mean", "sum")


class BatchLoss:
    """A loss of a whole batch: `f(network, batch, *, key=None, state=None)`, a number.

    For augmentation, masking, teacher forcing, contrast, whole graphs and batch statistics: whatever is no mean of
    `loss(network(x), y)` over the examples. With a `state` it returns the pair of the number and the next state.
    Arguments that `f` does not name are not passed.

    >>> flat = BatchLoss(lambda network, batch: jnp.mean(jax.vmap(network)(batch[0]) ** 2))
    >>> flat(network, data).shape
    ()
    """

    __slots__ = ("function", "names")

    def __init__(self, f: Callable):
        if not callable(f):
            raise TypeError(f"BatchLoss takes a function of network and batch, got {type(f).__name__}.")
        parameters = inspect.signature(f).parameters
        anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        self.names = tuple(name for name in ("key", "state") if anything or name in parameters)
        self.function = by_code(f)

    def as_now(self) -> "BatchLoss":
        """The same loss; what its function encloses is looked at again, in case it has changed."""
        again = object.__new__(BatchLoss)
        again.names, again.function = self.names, by_code(self.function)
        return again

    def __call__(
        self, network: NetworkLike, batch: PyTree, *, key: PRNGKeyArray | None = None, state: PyTree | None = None
    ) -> Any:
        given = {name: value for name, value in (("key", key), ("state", state)) if name in self.names}
        return self.function(network, batch, **given)

    def __eq__(self, other) -> bool:
        return isinstance(other, BatchLoss) and self.function == other.function

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return f"BatchLoss({self.function!r})"


class ExampleLoss(NamedTuple):
    """The mean (or the sum) over a batch `(x, y)` of a loss of one output and one target."""

    function: Callable
    reduction: str = "mean"

    def __call__(self, network, batch, *, key=None, state=None):
        x, y = batch
        if key is None:
            return self.of_outputs(jax.vmap(network)(x), y)
        keys = jax.random.split(key, jax.tree.leaves(x)[0].shape[0])
        return self.of_outputs(jax.vmap(lambda one, key: network(one, key=key))(x, keys), y)

    def of_outputs(self, outputs, y):
        """The loss of a batch of outputs."""
        each = jax.vmap(self.function)(outputs, y)
        if each.ndim != 1:
            raise ValueError(f"loss must return one number per example, got shape {each.shape[1:]}.")
        return jnp.mean(each) if self.reduction == "mean" else jnp.sum(each)


def resolved(loss, reduction: str = "mean") -> BatchLoss | ExampleLoss:
    """The loss of a batch that a name, a function of one example or a `BatchLoss` stands for."""
    one_of("reduction", reduction, REDUCTIONS)
    if isinstance(loss, BatchLoss):
        if reduction != "mean":
            raise ValueError(
                "reduction must be left out with a BatchLoss, which combines the losses of its examples itself."
            )
        return loss.as_now()
    if isinstance(loss, ExampleLoss):
        return loss._replace(function=by_code(loss.function))
    if isinstance(loss, str):
        return ExampleLoss(LOSSES[one_of("loss", loss, tuple(LOSSES))], reduction)
    if not callable(loss):
        raise TypeError(
            f"loss must be a name, a function of one output and one target, or a BatchLoss, got {type(loss).__name__}."
        )
    return ExampleLoss(by_code(loss), reduction)


def of_examples(loss, reduction: str = "mean", *, who: str) -> ExampleLoss:
    """As `resolved`, where outputs are needed one by one: a `BatchLoss` is refused."""
    found = resolved(loss, reduction)
    if isinstance(found, BatchLoss):
        raise TypeError(f"{who} needs the loss of every example on its own, loss(output, target), not a BatchLoss.")
    return found
