r"""Permutation importance: what a metric loses when one feature is shuffled among the examples.

The metric is a mean over the examples of a score of one output and one target, so that its mean over all $n!$ shuffles
needs no shuffle: each example meets each other example's feature equally often.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray, PyTree

from corollary._types import NetworkLike
from corollary._validate import labels, one_of, whole
from corollary.attribution._coalitions import example_array, looked_at, mixed_outputs, owners, require_finite
from corollary.attribution._targets import require_labels
from corollary.attribution.games import Attribution, estimated, exactly, sample_plan
from corollary.attribution.sampling import Estimate
from corollary.catalog import implements
from corollary.network._code import by_code
from corollary.network.batches import each, pair
from corollary.network.losses import LOSSES, cross_entropy


@implements("M12.03")
def agreement(output: Float[ArrayLike, "..."], target: Float[ArrayLike, "..."]) -> Float[Array, ""]:
    r"""$1-|m-\ell|$ for one output $m\in[0,1]$ and one label $\ell\in\{0,1\}$: its mean is the accuracy.

    It is affine in $m$, which the share of right answers is not.

    >>> float(agreement(0.75, 1))
    0.75
    """
    return 1 - jnp.mean(jnp.abs(jnp.ravel(output) - jnp.ravel(target)))


def right(output: Float[ArrayLike, "..."], target: Int[ArrayLike, ""]) -> Float[Array, ""]:
    """1 where the largest output is that of the class `target`, else 0; of a single output the sign is the class.

    >>> float(right(jnp.array([0.1, 2.0, -1.0]), 1))
    1.0
    """
    output = jnp.ravel(output)
    hit = jnp.argmax(output) == target if output.size > 1 else (output[0] > 0) == (jnp.ravel(target)[0] > 0)
    return hit.astype(output.dtype)


METRICS = {"accuracy": right, "agreement": agreement}


def resolved_metric(metric) -> Callable:
    """The score of one output and one target, larger where better; the name of a loss stands for its negative."""
    if isinstance(metric, str):
        one_of("metric", metric, (*METRICS, *LOSSES))
        return METRICS[metric] if metric in METRICS else by_code(_negative(LOSSES[metric]))
    if not callable(metric):
        raise TypeError(
            f"metric must be a name or a function of one output and one target, got {type(metric).__name__}."
        )
    return by_code(metric)


def _negative(loss):
    return lambda output, target: -loss(output, target)


@implements("M12.04")
def shuffle_feature(
    x: Float[ArrayLike, "n ..."], player: int, order: Int[ArrayLike, "n"], *, players: PyTree = None
) -> Float[Array, "n ..."]:
    """`x` with one feature of row `order[i]` in row i, all others where they were.

    `players` as in `shapley_values`: the columns of `x` unless given.

    >>> print(shuffle_feature(jnp.array([[1.0, 2.0], [3.0, 4.0]]), 0, [1, 0]))
    [[3. 2.]
     [1. 4.]]
    """
    x = example_array("x", x)
    order = labels("order", order, x.shape[0], "n", {"n": x.shape[0]})
    owner, count = owners(players, x.shape[1:])
    own = (owner == whole("player", player, 0, count - 1)).reshape(x.shape[1:])
    return jnp.where(own, x[order], x)


@implements("M12.04")
def permutation_importance(
    network: NetworkLike,
    metric: str | Callable,
    data: PyTree,
    *,
    how: str = "exact",
    samples: int = 100,
    key: PRNGKeyArray | None = None,
    players: PyTree = None,
    confidence: float = 0.95,
    batch_size: int = 8192,
) -> Attribution:
    r"""The metric of `network` on `data = (x, y)`, less its mean over shuffles of one feature, for each: (players,).

    `metric` is a function of one output and one target, larger where better, averaged over the examples; or
    `"accuracy"` (the share of right classes), `"agreement"`, or the name of a loss, which stands for its negative: then
    the importance is what the loss grows by. `how="exact"` is the mean over all $n!$ shuffles, from the
    $n^2$ pairs of an example and another one's feature; `"sample"` takes `samples` random shuffles, and gives
    Student's interval. `players` as in `shapley_values`.

    >>> permutation_importance(network, "squared", data).values.shape
    (3,)
    """
    score, (x, y) = resolved_metric(metric), pair("data", data)
    x = example_array("x", x)
    one_of("how", how, ("exact", "sample"))
    batch_size, n = whole("batch_size", batch_size), x.shape[0]
    owner, count = owners(players, x.shape[1:])
    network = looked_at(network, x)
    require_score(network, metric, score, (x, y))
    at_once = max(1, batch_size // n)
    if how == "exact":
        values = _over_all(network, score, x, y, owner, count, at_once)
        require_finite("the metric", values)
        return exactly(values, count * n**2)
    samples, spread = sample_plan(how, count, samples, key, confidence)
    mean, error = _over_some(network, score, x, y, owner, count, samples, key, at_once)
    require_finite("the metric", mean)
    return estimated(Estimate(mean, error, n + count * samples * n), spread)


def require_score(network, metric, score, data) -> None:
    """One sentence unless the metric of one example is a real number, and its labels are those of outputs."""
    one = jax.tree.map(lambda a: a[0], data)
    found = eqx.filter_eval_shape(lambda one: score(network(one[0]), one[1]), one)
    if getattr(found, "shape", None) != () or not jnp.issubdtype(found.dtype, jnp.floating):
        raise ValueError(f"metric must return one real number per example, got {found}.")
    if isinstance(metric, str) and metric in ("accuracy", "cross_entropy"):
        require_labels(network, cross_entropy, data)


def _without(player, players):
    """All players but one."""
    return jnp.arange(players) != player


@eqx.filter_jit
def _over_all(network, score, x, y, owner, players, at_once):
    n = x.shape[0]

    def one(number):
        player, i = number // n, number % n
        target = jax.tree.map(lambda a: a[i], y)
        outputs = mixed_outputs(network, x[i], x, owner, _without(player, players))
        scores = jax.vmap(lambda output: score(output, target))(outputs)
        return jnp.mean(scores[i] - scores)  # of the pair with itself, less all pairs

    return each(jax.vmap(one), jnp.arange(players * n), at_once).reshape(players, n).mean(1)


@eqx.filter_jit
def _over_some(network, score, x, y, owner, players, samples, key, at_once):
    n = x.shape[0]
    owned = jnp.asarray(owner).reshape(x.shape[1:])

    def metric(x):
        return jax.vmap(lambda a, b: score(network(a), b))(x, y).mean()

    def one(number):
        order = jax.random.permutation(jax.random.fold_in(key, number), n)
        return metric(jnp.where(owned == number % players, x[order], x))

    shuffled = each(jax.vmap(one), jnp.arange(samples * players), at_once).reshape(samples, players)
    return metric(x) - shuffled.mean(0), shuffled.std(0, ddof=1) / samples**0.5
