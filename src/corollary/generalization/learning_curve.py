"""How the loss falls with the number of examples: trainings on nested parts of the data, all in one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from scipy import stats

from corollary._charts import lines
from corollary._show import shown
from corollary._types import LossLike
from corollary._validate import whole
from corollary.network._code import by_code
from corollary.network.batches import count, each, pair
from corollary.network.loss import of_examples

# examples whose losses are taken at once
AT_ONCE = 256


class Doubled(NamedTuple):
    """The mean loss that is expected with twice the data, and the interval of one training with as many."""

    value: float
    interval: tuple[float, float]

    __repr__ = shown


class LearningCurve(NamedTuple):
    """Losses of trainings on parts of the data, of `sizes` examples each.

    `new` are those of each new example in every draw at every size, `own` those of each example of the data; `seen`
    says which of these a training had.
    """

    sizes: np.ndarray
    new: Float[Array, "draws s m"]
    own: Float[Array, "draws s n"]
    seen: Bool[Array, "draws s n"]

    __repr__ = shown

    @property
    def mean(self) -> np.ndarray:
        """The mean loss of new examples at every size."""
        return np.asarray(self.new, float).mean((0, 2))

    def doubled(self, confidence: float = 0.95) -> Doubled:
        r"""The mean loss of new examples with twice the data, if the curve falls and is convex in $\log n$.

        Then what a doubling takes off the loss gets less with each, and the next one takes off between nothing and what
        the last one has. A constant plus a power of $n$ loses by the same factor from each doubling to the next: that
        is the value, with no slower power than the root of $n$. The interval is widened by Student's for one more
        training.
        """
        losses = np.asarray(self.new, float).mean(2)
        draws = len(losses)
        means = losses.mean(0)
        before, last = means[-3] - means[-2], means[-2] - means[-1]
        root = 2**-0.5  # the factor of 1/√n, the slowest rate that uniform convergence has
        factor = np.clip(last / before, 0, root) if before > 0 else root
        spread = np.sqrt(losses[:, -3:].var(0, ddof=1).mean())
        reach = stats.t.ppf((1 + confidence) / 2, 3 * (draws - 1)) * spread * np.sqrt(1 + 1 / draws)
        ends = np.sort([means[-1], means[-1] - last])
        value = means[-1] - factor * last
        return Doubled(float(max(value, 0)), (float(max(ends[0] - reach, 0)), float(ends[1] + reach)))

    def left_out(self) -> np.ndarray:
        """The mean loss (n,) of each example in the trainings on half of the data that did not have it; NaN if none."""
        own, seen = (np.asarray(a)[:, -2] for a in (self.own, self.seen))
        without = (~seen).sum(0)
        total = np.where(seen, 0.0, own).sum(0)
        return np.where(without > 0, total / np.maximum(without, 1), np.nan)

    def plot(self) -> Any:
        """An Altair chart of the mean loss on new examples by the number of examples; one line for each draw."""
        losses = np.asarray(self.new, float).mean(2)
        rows = [
            {"examples": int(n), "loss": float(v), "run": f"draw {i}"}
            for i, row in enumerate(losses)
            for n, v in zip(self.sizes, row, strict=True)
        ]
        return lines(rows, "examples", "loss", colour="run")


def learning_curve(
    fit: Callable,
    data: tuple,
    new: tuple,
    *,
    loss: LossLike = "squared",
    halvings: int = 2,
    draws: int = 4,
    at_once: int | None = None,
    key: PRNGKeyArray,
) -> LearningCurve:
    r"""The `loss` of `fit(data, key)`, which returns a predictor, after training on parts of the data of many sizes.

    Of `n` examples $n/2^h,\dots,n/2,n$ are taken, where $h$ = `halvings`, in `draws` random orders; every second order
    is the one before backwards, so that what one half leaves out the other has. A part is repeated until it is as long
    as the data, so that one program serves all sizes: means over it, and batches drawn from it, are those of the part.
    `at_once` trainings go side by side, all unless told. `fit` may be an Equinox module: then others with arrays of the
    same shapes find its program again.

    >>> x = jax.random.normal(key, (64,))
    >>> curve = learning_curve(lambda data, key: polynomial_fit(*data, 1), (x, 2 * x), (x, 2 * x), key=key)
    >>> curve.sizes.tolist(), bool(curve.mean.max() < 1e-6)
    ([16, 32, 64], True)
    """
    data, new = pair("data", data), pair("new", new)
    halvings, draws = whole("halvings", halvings, 2), whole("draws", draws, 2)
    if not callable(fit):
        raise TypeError(f"fit must be a function of data and key that returns a predictor, got {type(fit).__name__}.")
    n = count(data)
    least = n // 2**halvings
    if not least:
        raise ValueError(f"data must have {2**halvings} examples or more for {halvings} halvings, got {n}.")
    at_once = draws * (halvings + 1) if at_once is None else whole("at_once", at_once)
    sizes = least * 2 ** np.arange(halvings + 1)
    order_key, fit_key = jax.random.split(key)
    orders = np.array([jax.random.permutation(k, n)[: sizes[-1]] for k in jax.random.split(order_key, -(-draws // 2))])
    orders = np.stack([orders, orders[:, ::-1]], 1).reshape(-1, sizes[-1])[:draws]
    rows = np.stack([np.tile(orders[:, :size], (1, sizes[-1] // size)) for size in sizes], 1)
    seen = np.zeros((draws, len(sizes), n), bool)
    np.put_along_axis(seen, rows, True, -1)
    keys = jax.random.split(fit_key, rows.shape[:2])
    loss = of_examples(loss, who="learning_curve")
    fit = fit if isinstance(fit, eqx.Module) else by_code(fit)
    own, others = _losses(fit, loss.function, data, new, rows, keys, at_once)
    return LearningCurve(sizes, others, own, jnp.asarray(seen))


@eqx.filter_jit
def _losses(fit, loss, data, new, rows, keys, at_once):
    """The loss of every example of the data, and of every new one, after every training."""

    def run(given):
        rows, key = given
        predictor = fit(jax.tree.map(lambda a: a[rows], data), key)

        def losses(part):
            x, y = part
            return jax.vmap(loss)(jax.vmap(predictor)(x), y)

        return tuple(each(losses, part, AT_ONCE) for part in (data, new))

    flat = rows.reshape(-1, rows.shape[-1]), keys.reshape(-1)
    found = jax.lax.map(run, flat, batch_size=min(at_once, len(flat[0])))
    return jax.tree.map(lambda a: a.reshape(*rows.shape[:2], -1), found)
