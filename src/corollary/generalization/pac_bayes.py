r"""A certificate for any network: a normal posterior around its weights, trained to have the least PAC-Bayes bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from corollary._types import LossLike, NetworkLike
from corollary._validate import concrete, one_of, real, whole, within
from corollary.catalog import implements
from corollary.generalization._fresh import fresh
from corollary.generalization._posterior import Goal, on_grid, start_scales, trained
from corollary.generalization.bound import confidence
from corollary.generalization.certificate import EVALUATED, Certificate, bound, count_key, part, price
from corollary.generalization.pac_bayes_bounds import log_moment
from corollary.generalization.stochastic import StochasticNetwork, classified
from corollary.network._code import by_code
from corollary.network.batches import count
from corollary.network.loss import of_examples
from corollary.network.parts import matched, require_network, split

#: Losses that train classifiers, divided by what makes them at least 1 wherever the class is wrong.
SURROGATES = {"cross_entropy": math.log(2), "binary_cross_entropy": math.log(2), "logistic": math.log(2), "hinge": 1.0}
FEWEST = 8  # examples: below, the bound's own constants are worth more than all of them


@implements("B09.10")
def pac_bayes(
    network: NetworkLike,
    loss: LossLike,
    data: PyTree,
    *,
    initial: NetworkLike | None = None,
    prior: str | float = "initial",
    delta: float = 0.025,
    delta_draws: float = 0.01,
    objective: str = "kl",
    steps: int = 5000,
    draws: int = 20,
    key: PRNGKeyArray,
    batch_size: int = 250,
) -> Certificate:
    r"""A bound on the error of new examples for a stochastic network around `network`, and that stochastic network.

    `data` are the pair `(x, y)` with one class per example, the sample that the bound rests on. `initial` is a network
    of the same kind with weights that have seen none of it, in general those from which `network` was trained.

    - `prior="initial"`: the prior is normal around `initial`, with one variance for each array of parameters, from a
      grid that is paid for; the posterior starts at the weights of `network` and is trained on all data.
    - `prior=0.5`, or another share: a random part of the data trains a stochastic network from `initial`, which is the
      prior, and the posterior starts there. The certificate rests on the other part alone. Of `network` only its kind
      counts, because its weights have seen both parts; without `initial` new ones are drawn.

    The posterior has its own mean and standard deviation for each parameter. Training takes `steps` steps on
    `batch_size` examples each, down the gradient of the bound `objective`, `"kl"` (`maurer_seeger`) or `"square"`
    (`mcallester`), with `loss` in the place of the share of errors: a name, or a function with values in [0, 1].
    Whatever it finds, the bound is `maurer_seeger` on the share of errors, counted on `draws` predictions for each
    example, each by a network drawn for it. It holds with probability `1 - delta - delta_draws` over the sample and
    those draws. `check` of the result makes it anew.

    >>> data = (x, (x[:, 0] > 0).astype(int))
    >>> many = tuple(jnp.concatenate([a] * 8) for a in data)
    >>> pac_bayes(network, "cross_entropy", many, initial=StochasticNetwork(network, 0.3).draw(key=key), steps=10,
    ...     key=key).vacuous.shape
    ()
    """
    surrogate = _surrogate(loss)
    data = classified(network, data)
    delta, delta_draws = confidence(delta), _probability("delta_draws", delta_draws)
    one_of("objective", objective, ("kl", "square"))
    steps, draws, batch_size = whole("steps", steps), whole("draws", draws), whole("batch_size", batch_size)
    fraction = 0.0 if isinstance(prior, str) and one_of("prior", prior, ("initial",)) else _fraction(prior)
    initial = _initial(network, initial, fraction, jax.random.fold_in(key, 3))
    first, rest = part(data, fraction, key)
    _require_enough(rest, first)
    _require_range(surrogate, loss, network, rest)
    n, priced = count(rest), 0.0 if fraction else price(network)
    goal = Goal(objective, log_moment("kl", n) - jnp.log(delta) + priced, n)
    prior_key, posterior_key = jax.random.split(jax.random.fold_in(key, 2))

    if fraction:
        start = StochasticNetwork(initial, start_scales(initial))
        learnt = Goal("evidence", goal.nats, count(first))
        before = trained(start, initial, surrogate, first, learnt, steps, batch_size, prior_key)
        posterior = trained(before, before, surrogate, rest, goal, steps, batch_size, posterior_key)
    else:
        start = StochasticNetwork(network, start_scales(network, initial))
        posterior = trained(start, initial, surrogate, rest, goal, steps, batch_size, posterior_key)
        before = on_grid(posterior, initial)
    kl = posterior.kl(before)
    errors = posterior.errors(rest, draws=draws, key=count_key(key), batch_size=EVALUATED)
    made = bound(errors, n, draws, kl, priced, delta, delta_draws)
    return Certificate(posterior, before, made, errors, kl, delta, delta_draws, draws, fraction, key=key)


def _surrogate(loss) -> Callable:
    """The loss of one example that training descends: at least 1 where the class is wrong, or in [0, 1]."""
    if isinstance(loss, str) and loss not in SURROGATES:
        raise ValueError(
            f"loss must be one that trains a classifier, {', '.join(SURROGATES)} or a function with values in [0, 1], "
            f"got {loss!r}: the bound is on the share of wrong classes."
        )
    function = of_examples(loss, who="pac_bayes").function
    return by_code(partial(_divided, function, SURROGATES.get(loss, 1.0) if isinstance(loss, str) else 1.0))


def _initial(network, initial, fraction, key):
    """`initial` in the place of `network`: same structure, other weights."""
    if initial is None:
        if fraction:
            return fresh(network, key)
        raise TypeError(
            "initial must be given, a network of the same kind whose weights have seen none of the data: the prior is "
            "centred there. Without one, a part of the data makes the prior: prior=0.5."
        )
    require_network(initial)
    ours = split(network)
    theirs = matched("initial", split(initial, name="initial").params, ours.params)
    pairs = [*zip(*map(jax.tree.leaves, (ours.params, theirs)), strict=True)]
    same = all(concrete(a) and concrete(b) and np.array_equal(a, b) for a, b in pairs)
    if same and not fraction:
        raise ValueError(
            "initial must be the network before it was trained, and it has the weights of network itself: a prior that "
            "has seen the data gives no bound."
        )
    return ours.join(jax.tree.map(lambda a, b: b.astype(a.dtype), ours.params, theirs))


def _probability(name, value):
    return within(name, real(name, value, ""), 0.0, 1.0, open="both")


def _fraction(prior):
    return float(_probability("prior", prior))


def _require_enough(rest, first) -> None:
    for name, some in (("the certificate", rest), ("the prior", first)):
        if some is not None and count(some) < FEWEST:
            raise ValueError(f"data must have at least {FEWEST} examples for {name}, got {count(some)}.")
    if first is not None and all(map(concrete, jax.tree.leaves((first, rest)))):
        both = len(np.intersect1d(_rows(first), _rows(rest)))
        if both:
            raise ValueError(
                f"data must hold every example once, and {both} of them are both in the prior's part and in that of "
                "the certificate: leave the copies out."
            )


def _rows(data):
    """One value per example, equal for equal examples: its bytes."""
    columns = [np.ascontiguousarray(np.asarray(a).reshape(count(data), -1)) for a in jax.tree.leaves(data)]
    joined = np.concatenate([c.view(np.uint8).reshape(count(data), -1) for c in columns], axis=1)
    return joined.view(np.dtype((np.void, joined.shape[1]))).ravel()


def _require_range(surrogate, loss, network, data) -> None:
    """One sentence for a function that leaves [0, 1] on the data; named losses bound the error by their making."""
    if isinstance(loss, str) or not all(map(concrete, jax.tree.leaves((eqx.filter(network, eqx.is_array), data)))):
        return
    values = np.asarray(_losses(surrogate, network, data))
    if not (values.min() >= 0 and values.max() <= 1):
        raise ValueError(
            f"loss must lie in [0, 1], got values from {values.min():.4g} to {values.max():.4g}: divide it by its "
            "range, or cut it off."
        )


@eqx.filter_jit
def _losses(surrogate, network, data):
    return jax.vmap(lambda x, y: surrogate(network(x), y))(*data)


def _divided(function, divisor, output, target):
    return function(output, target) / divisor
