"""The first steps of a training, taken again: what can be seen in them of how it will go on."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from corollary.optimization import power_method

#: so many steps are taken, and looked at half way; products of the power method; examples that the numbers are of
STEPS, PRODUCTS, PROBE = 20, 12, 256
# logarithms are cut off here: beyond, a number is as good as infinite
FAR = 30.0
#: names of the features, in the order of `features`
FEATURES = (
    "loss over its goal",
    "loss at the start over its goal",
    "fall of the loss",
    "fall in the steps left, at the present rate",
    "share of the steps left that is needed, at the present rate",
    "share of the steps left that is needed, by the gradient",
    "step times curvature at the start",
    "step times curvature",
    "relative fall in the steps left, by the gradient",
    "relative fall in the steps left, by the gradient at the start",
    "distance moved",
    "noise of the loss",
    "noise of the gradient",
    "error left",
    "steps left",
)


class Early(NamedTuple):
    """Numbers of the first steps: arrays of one number for each training, or numbers.

    The loss at the start, half way and after the last step, the squared norm of the gradient and the largest curvature
    at the start and after the last step, all on one probe; the distance moved over the norm of the start; of the
    second half of the batches the mean loss, its standard deviation, and the mean squared norm of the gradient; the
    error on the probe after the last step, over that of a blind guess.
    """

    start: np.ndarray
    middle: np.ndarray
    now: np.ndarray
    slope_at_start: np.ndarray
    slope: np.ndarray
    curvature_at_start: np.ndarray
    curvature: np.ndarray
    moved: np.ndarray
    batch_loss: np.ndarray
    batch_spread: np.ndarray
    batch_slope: np.ndarray
    error: np.ndarray


def curvature(objective, params, key):
    """The largest curvature of a function of parameters, in size, by the power method: within some per cent."""
    flat, back = ravel_pytree(params)

    def product(v):
        return ravel_pytree(jax.jvp(jax.grad(objective), (params,), (back(v),))[1])[0]

    found = power_method(product, jax.random.normal(key, flat.shape, flat.dtype), PRODUCTS - 1)
    return jnp.hypot(found.quotients[-1], found.residual)  # the length of the last product


def features(early: Early, step, goal, steps, taken: int = STEPS) -> np.ndarray:
    """What decides, on scales on which it is decided: one row for each training, a column for each of `FEATURES`.

    `goal` is the loss that is to be reached in so many `steps` of size `step`, of which so many are `taken`. Numbers
    that are not finite stand at the bad end.
    """
    e = Early(*(np.nan_to_num(np.asarray(a, float), nan=1e30, posinf=1e30) for a in early))
    step, goal, left = (np.asarray(a, float) for a in (step, goal, np.maximum(np.subtract(steps, taken), 1)))
    rate = (_log(e.middle) - _log(e.now)) / (taken - taken // 2)
    above = _log(e.now) - _log(goal)
    needed = np.where(rate > 1e-6, above / np.maximum(rate, 1e-6), 1e6 * np.sign(above))
    by_slope = (e.now - goal) / np.maximum(step * e.slope, 1e-30)
    columns = (
        above,
        _log(e.start) - _log(goal),
        _log(e.now) - _log(e.start),
        np.clip(rate * left, -FAR, FAR),
        _signed(needed / left),
        _signed(by_slope / left),
        _log(step * e.curvature_at_start),
        _log(step * e.curvature),
        _log(step * e.slope / np.maximum(e.now, 1e-30) * left),
        _log(step * e.slope_at_start / np.maximum(e.start, 1e-30) * left),
        _log(e.moved),
        _log(e.batch_spread / np.maximum(e.batch_loss, 1e-30)),
        _log(e.batch_slope / np.maximum(e.slope, 1e-30)),
        np.clip(e.error, 0, 10),
        np.log(left),
    )
    return np.stack(np.broadcast_arrays(*columns), -1)


def _log(a):
    return np.clip(np.log(np.maximum(a, 1e-30)), -FAR, FAR)


def _signed(share):
    """A share of the steps, negative where nothing is left to do, on a logarithmic scale from a tenth on."""
    return np.sign(share) * np.log1p(10 * np.clip(np.abs(share), 0, 1e4))
