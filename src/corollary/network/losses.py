r"""Losses of one example, `loss(output, target)`, by name: `"cross_entropy"`, `"squared"` and the rest of `LOSSES`.

The loss of a data set is the mean over its examples. Outputs and targets of one example have no axis of examples.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import concrete, labels, within
from corollary.catalog import implements

#: The target of a place that does not count, such as padding: the number that PyTorch has for it.
IGNORED = -100


@implements("E02.11")
def squared(output: ArrayLike, target: ArrayLike) -> Float[Array, ""]:
    r"""$\frac12\|f-y\|^2$; its gradient in $f$ is $f-y$."""
    return 0.5 * jnp.sum(_difference(output, target) ** 2)


def absolute(output: ArrayLike, target: ArrayLike) -> Float[Array, ""]:
    r"""$\|f-y\|_1$."""
    return jnp.sum(jnp.abs(_difference(output, target)))


def huber(output: ArrayLike, target: ArrayLike) -> Float[Array, ""]:
    r"""$\sum_ih(f_i-y_i)$ with $h(r)=\frac12r^2$ for $|r|\le1$ and $|r|-\frac12$ beyond."""
    size = jnp.abs(_difference(output, target))
    return jnp.sum(jnp.where(size <= 1, 0.5 * size**2, size - 0.5))


@implements("B02.16", "B02.21", "B12.01", "E02.05", "E02.12")
def cross_entropy(output: ArrayLike, target: ArrayLike) -> Float[Array, ""]:
    r"""$-\sum_iy_i\ln\mathrm{softmax}_i(f)$, from logits; with a single logit $-y\ln\sigma(f)-(1-y)\ln(1-\sigma(f))$.

    The target of logits $(k,)$ is a class, a whole number, or a probability vector $(k,)$; that of a single logit is 0
    or 1, or a probability. Logits $(t,\dots,k)$ at many places, one class each, are averaged over the places; places
    with the target -100 (padding) are left out. Where the shapes say so, $(k,t,\dots)$ for targets $(t,\dots)$, the
    classes are the first axis. Gradient: $\mathrm{softmax}(f)-y$, or $\sigma(f)-y$.
    """
    output, target = jnp.asarray(output), jnp.asarray(target)
    if output.size == 1 and target.size == 1:
        logit, share = output.reshape(()), within("target", target, 0, 1).reshape(()).astype(output.dtype)
        # softplus(f) - yf without the difference of two large numbers
        return share * jax.nn.softplus(-logit) + (1 - share) * jax.nn.softplus(logit)
    if class_axis(output, target) == 0:
        output = jnp.moveaxis(output, 0, -1)
    logs = jax.nn.log_softmax(output)
    if is_class(output, target):
        known = labels("target", _known(output, target), output.shape[-1], None)
        chosen = -jnp.take_along_axis(logs, known[..., None], axis=-1)[..., 0]
        if output.ndim == 1:
            return chosen
        counted = target != IGNORED
        return jnp.sum(jnp.where(counted, chosen, 0)) / jnp.maximum(jnp.sum(counted), 1)
    if target.shape != output.shape:
        raise ValueError(
            f"cross_entropy takes a class or a probability vector for logits of shape {output.shape}, "
            f"got a target of shape {target.shape} and dtype {target.dtype}."
        )
    if concrete(target) and not np.allclose(np.sum(target, -1), 1, atol=1e-3):
        raise ValueError(f"the probabilities in a target must sum to 1, got {np.sum(target, -1)}.")
    return -jnp.mean(jnp.sum(within("target", target, 0, 1) * logs, axis=-1))


def binary_cross_entropy(output: ArrayLike, target: ArrayLike) -> Float[Array, ""]:
    r"""The mean over the outputs of $-y_i\ln\sigma(f_i)-(1-y_i)\ln(1-\sigma(f_i))$, from logits, one yes or no each.

    For several labels at once, and for masks: `target` has the shape of `output`, axes of length one aside, and holds 0
    or 1, or probabilities. Gradient: $(\sigma(f)-y)/k$ for $k$ outputs.
    """
    output, target = jnp.asarray(output), jnp.asarray(target)
    if not same_places(output.shape, target.shape):
        raise ValueError(f"the target must have the shape of the output, {output.shape}, got {target.shape}.")
    share = within("target", target, 0, 1).reshape(output.shape).astype(output.dtype)
    return jnp.mean(share * jax.nn.softplus(-output) + (1 - share) * jax.nn.softplus(output))


def logistic(output: ArrayLike, target: ArrayLike) -> Float[Array, ""]:
    r"""$\ln(1+e^{-yf})$ for the label $y=\pm1$ and one output."""
    return jax.nn.softplus(-_margin("logistic", output, target))


def hinge(output: ArrayLike, target: ArrayLike) -> Float[Array, ""]:
    r"""$\max(0,1-yf)$ for the label $y=\pm1$ and one output."""
    return jnp.maximum(0, 1 - _margin("hinge", output, target))


#: The losses that have a name.
LOSSES: dict[str, Callable] = {
    "cross_entropy": cross_entropy,
    "binary_cross_entropy": binary_cross_entropy,
    "squared": squared,
    "absolute": absolute,
    "huber": huber,
    "logistic": logistic,
    "hinge": hinge,
}


def require_targets(loss: Callable, output, targets) -> None:
    """One sentence for classes that the `output` of one example has no logit for; in a trace they cannot be seen."""
    if getattr(loss, "function", loss) is not cross_entropy or not isinstance(targets, jax.Array) or not targets.ndim:
        return
    one = jax.ShapeDtypeStruct(targets.shape[1:], targets.dtype)
    axis = class_axis(output, one)
    if output.size > 1 and axis is not None:
        labels("targets", _known(output, targets), output.shape[axis], None)


def is_class(output, target) -> bool:
    """Whether a target is whole numbers, a class for each vector of logits."""
    return _whole(target) and target.shape == output.shape[:-1]


def class_axis(output, target) -> int | None:
    """The axis of the classes in the outputs of one example: the last, or the first if only that fits, else None."""
    if not _whole(target) or not output.shape:
        return None
    last = len(output.shape) - 1
    return last if target.shape == output.shape[:-1] else 0 if target.shape == output.shape[1:] else None


def same_places(first: tuple, second: tuple) -> bool:
    """Whether two shapes are the same but for axes of length one."""
    return [d for d in first if d != 1] == [d for d in second if d != 1]


def _whole(target) -> bool:
    return jnp.issubdtype(target.dtype, jnp.integer) or target.dtype == jnp.bool_


def _known(output, target):
    """The classes of the places, with some class where there is none; a single place always has one."""
    if len(output.shape) == 1 or target.dtype == jnp.bool_:
        return target
    # what can be looked at is looked at with NumPy: in a trace even a constant is traced
    where = np.where if concrete(target) else jnp.where
    return where(target == IGNORED, 0, target)


def _difference(output, target):
    output, target = jnp.asarray(output), jnp.asarray(target)
    if output.size != target.size or (output.ndim > 1 and output.shape != target.shape):
        raise ValueError(f"the target must have the shape of the output, {output.shape}, got {target.shape}.")
    return output - target.reshape(output.shape)


def _margin(name, output, target):
    output, target = jnp.asarray(output), jnp.asarray(target)
    if output.size != 1 or target.size != 1:
        raise ValueError(f"{name} takes one output and one label, got shapes {output.shape} and {target.shape}.")
    return target.reshape(()) * output.reshape(())
