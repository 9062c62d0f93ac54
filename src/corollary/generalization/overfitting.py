r"""What becomes of a method that fits its data exactly, noise and all, as there are more of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from corollary._show import shown
from corollary._validate import whole
from corollary.catalog import implements
from corollary.network._code import by_code

FLAT = 0.1  # a slope that is nearer to 0 counts as none: what 1/log n has at n = 20,000
CONFIDENCE = 0.99


class Overfitting(NamedTuple):
    r"""`kind` is `"benign"`, `"tempered"`, `"catastrophic"` or `"undecided"`.

    `slope` is that of the logarithm of the excess risk against that of n, with its `interval` at confidence 0.99;
    `excess` has the geometric means over the runs at `sizes`; `train` has the mean squared residuals on training data,
    on as many of them as there are tests.
    """

    kind: str
    slope: float
    interval: tuple[float, float]
    sizes: tuple[int, ...]
    excess: Array
    train: Array
    __repr__ = shown


@implements("B13.14")
def overfitting(
    fit: Callable,
    draw: Callable,
    sizes: Sequence[int],
    *,
    truth: Callable,
    inputs: Callable | None = None,
    runs: int = 32,
    tests: int = 500,
    key: PRNGKeyArray,
) -> Overfitting:
    r"""The kind of overfitting of `fit(data, key)`, from its excess risk at data sets `draw(key, n)` of these `sizes`.

    The excess is $\mathbb E(\hat f(x)-f(x))^2$ with `truth` $f$, at `tests` new inputs of each run: those that `draw`
    gives, or `inputs(key)` one by one where the design is not a sample. Benign: the slope of its logarithm against
    $\log n$ lies below -0.1 with its whole interval; tempered: within ±0.1; catastrophic: above 0.1. Otherwise, more
    runs or a wider range of sizes are needed. The interval is the wider of two: from the scatter between runs, and
    from how far the sizes are from one line.
    """
    for name, value in (("fit", fit), ("draw", draw), ("truth", truth)):
        if not callable(value):
            raise TypeError(f"{name} must be a function, got {type(value).__name__}.")
    sizes = tuple(whole("sizes", int(n) if isinstance(n, np.integer) else n) for n in sizes)
    if len(sizes) < 4 or list(sizes) != sorted(set(sizes)):
        raise ValueError(f"sizes must be at least four numbers, each larger than the one before, got {sizes}.")
    runs, tests = whole("runs", runs, 4), whole("tests", tests)
    functions = [None if f is None else by_code(f) for f in (fit, draw, truth, inputs)]
    keys = jax.random.split(key, (len(sizes), runs))
    # one program per size, because sizes are shapes
    found = [_excess(*functions, n, tests, keys[i]) for i, n in enumerate(sizes)]
    excess, train = (np.asarray([part[i] for part in found], float) for i in range(2))
    if np.isnan(excess).any():
        raise ValueError(f"fit must predict numbers, got NaN at n = {sizes[int(np.isnan(excess).any(1).argmax())]}.")
    logs = np.log(np.clip(excess, np.finfo(float).tiny, np.finfo(float).max))
    slope, low, high = _slope(np.log(sizes), logs)
    inside = [("benign", high < -FLAT), ("tempered", low > -FLAT and high < FLAT), ("catastrophic", low > FLAT)]
    kind = next((name for name, is_so in inside if is_so), "undecided")
    return Overfitting(kind, slope, (low, high), sizes, np.exp(logs.mean(1)), train.mean(1))


@functools.partial(jax.jit, static_argnums=range(6))
def _excess(fit, draw, truth, inputs, n, tests, keys):
    def one(key):
        draw_key, fit_key, new_key = jax.random.split(key, 3)
        x, y = draw(draw_key, n)
        predictor = fit((x, y), fit_key)
        new = draw(new_key, tests)[0] if inputs is None else jax.vmap(inputs)(jax.random.split(new_key, tests))
        off = jax.vmap(predictor)(new) - jax.vmap(truth)(new)
        return jnp.mean(off**2), jnp.mean((jax.vmap(predictor)(x[:tests]) - y[:tests]) ** 2)

    return jax.lax.map(one, keys)


def _slope(u: np.ndarray, v: Float[np.ndarray, "k r"]) -> tuple[float, float, float]:
    """The slope of the means of the rows of `v` against `u`, and its interval."""
    from scipy import stats

    u = u - u.mean()
    means, errors = v.mean(1), v.std(1, ddof=1) / v.shape[1] ** 0.5
    total = float(u @ u)
    slope = float(u @ means) / total
    residual = means - means.mean() - slope * u
    between = u**2 @ errors**2 / total**2
    along = residual @ residual / (u.size - 2) / total
    half = float(np.sqrt(max(between, along)) * stats.norm.isf((1 - CONFIDENCE) / 2))
    return slope, slope - half, slope + half
