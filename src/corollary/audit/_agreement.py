"""How much alike two networks are on the same examples: what they predict, how they would learn, and why."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary import attribution, kernels
from corollary.audit import _plan
from corollary.audit._numbers import short
from corollary.audit._sample import exact_interval, interval, jackknife, some
from corollary.audit._tangent import chosen_outputs

KERNEL, MAPS = 96, 256


class Agreement(NamedTuple):
    """One number, 1 for networks that do not differ, with its interval at 95 %; None and why if it cannot be had."""

    name: str
    value: float | None
    interval: tuple[float, float] | None
    sentence: str

    def as_dict(self) -> dict:
        return self._asdict()


def predictions(predicted, other) -> Agreement:
    """The share of examples (or places) that both give one class."""
    name = "predictions"
    if predicted is None or other is None or predicted.shape != other.shape:
        return Agreement(name, None, None, "The networks do not give classes.")
    same = predicted == other
    share = float(same.mean())
    one_each = same.ndim == 1
    ends = exact_interval(same.sum(), same.size) if one_each else interval(same.reshape(len(same), -1).mean(1))
    return Agreement(name, share, ends, f"Both give {100 * share:.3g} % of {same.size} the same class.")


def tangent_kernels(subject, other, budget, key) -> Agreement:
    """The cosine of the centred tangent kernels: whether both would learn from the same examples the same."""
    name = "tangent kernels"
    for each in (subject, other):
        if (long := _plan.too_long(each, budget)) is not None:
            return Agreement(name, None, None, long)
    most, at = _plan.kernel(subject, budget, key)
    split = subject.splits[-1]
    x = some(subject.data(split)[0], min(most, KERNEL), key)

    def kernel(each):
        network, trainable = chosen_outputs(each.network, at, each.trainable)
        k = jnp.asarray(kernels.empirical_ntk(network, x, trainable=trainable), jnp.float32)
        return (k + k.T) / 2

    pair = {"new": kernel(subject), "old": kernel(other)}
    value, ends = jackknife(_cosine, pair, {}, subject.count(split))["cosine"]
    if not np.isfinite(value):
        return Agreement(name, None, None, "A tangent kernel is zero, or the same for all examples.")
    n = len(pair["new"])
    said = f"Centred, the tangent kernels on {n} examples have the cosine {short(value)}."
    return Agreement(name, value, (max(-1.0, ends[0]), min(1.0, ends[1])), said)


def _cosine(pair, _):
    return {"cosine": kernels.kernel_alignment(*(kernels.centred_kernel(pair[side]) for side in ("new", "old")))}


def attributions(subject, other, budget, key) -> Agreement:
    """The mean cosine of gradient times input for the target class: whether both look at the same inputs."""
    name, split = "attributions", subject.splits[-1]
    x, out = subject.data(split)[0], subject.outputs(split)
    plain = isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, np.floating)
    if not plain or out.ndim > 2 or (subject.classes is not None and subject.labels(split).ndim > 1):
        return Agreement(name, None, None, "Attributions are for one array of numbers and one answer for each example.")
    for each in (subject, other):
        if (long := _plan.too_long(each, budget)) is not None:
            return Agreement(name, None, None, long)
    rows = some(np.arange(len(x)), MAPS, key)
    target = None
    if out.ndim == 2 and out.shape[1] > 1:
        target = jnp.asarray(subject.labels(split) if subject.classes else jnp.zeros(len(x), int))[rows]
    maps = [
        np.asarray(attribution.gradient_input(each.network, x[rows], output=target)).reshape(len(rows), -1)
        for each in (subject, other)
    ]
    sizes = [np.linalg.norm(m, axis=1) for m in maps]
    seen = (sizes[0] > 0) & (sizes[1] > 0)
    if seen.sum() < 2:
        return Agreement(name, None, None, "The outputs do not change with the inputs.")
    cosines = (np.sum(maps[0] * maps[1], axis=1) / np.maximum(sizes[0] * sizes[1], 1e-38))[seen]
    value = float(cosines.mean())
    said = f"Gradient times input has the cosine {short(value)} in the mean of {seen.sum()} examples."
    return Agreement(name, value, interval(cosines, subject.count(split)), said)
