"""Linear classifiers with a margin in few numbers: coins for the coordinates, and random projections."""

from functools import partial
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its stats load slowly, so only when a claim runs

from corollary.evidence import (
    Probability,
    Range,
    at_least,
    at_most,
    claim,
    control,
    equal,
    estimate,
    frequency_at_most,
    printed,
    same_law,
)
from corollary.generalization import keep_probabilities, project, sparsify


def _unit(v):
    return v / jnp.linalg.norm(v, axis=-1, keepdims=True)


@partial(jax.jit, static_argnums=3)
def _sparse(w, margin, key, draws):
    found = jax.vmap(lambda k: sparsify(w, margin, key=k))(jax.random.split(key, draws))
    return found.w, found.description.parameters


@claim(rows=("T05.27", "T05.28"))
def sparsified_classifier(
    key,
    *,
    d: Annotated[int, Range(500, 20_000)] = 1000,
    margin: Probability = 0.3,
    draws: Annotated[int, Range(500, 20_000)] = 2000,
):
    r"""Of a classifier with a margin, 8/γ² coordinates on average are enough for any one point.

    For $\|w\|=1$ keep coordinate $i$ as $w_i/p_i$ with probability $p_i=\min(1,8w_i^2/\gamma^2)$. If no $w_i^2$ exceeds
    $\gamma^2/8$, then $8/\gamma^2$ are kept on average; always at most that. For a point $u$ of length 1 that does not
    depend on the coins the score has the mean $w\cdot u$ and the variance
    $\sum_iu_i^2w_i^2(1/p_i-1)\le\gamma^2/8$, so that it moves by $\gamma$ with probability $1/8$ at most (printed with
    $1/4$). Coordinates with $w_i^2\ge\gamma^2/8$ stay as they are. Taken as $\gamma^2/(8w_i)$ like the others, they
    would make the score biased; and a point that is chosen after the coins is moved by more. (The text asks for
    $|w_i|<\gamma^2/8$, which is more than is needed.)
    """
    w_key, u_key, coin_key, large_key = jax.random.split(key, 4)
    # no coordinate is near 0: such a one is kept hardly ever, and then is large
    w = _unit(jax.random.uniform(w_key, (d,), minval=0.5, maxval=1.5))
    u = _unit(jax.random.normal(u_key, (d,)))
    sparse, kept = (np.asarray(a) for a in _sparse(w, margin, coin_key, draws))
    moved = sparse @ np.asarray(u) - float(w @ u)
    yield at_most("squares of the coordinates", np.asarray(w) ** 2, margin**2 / 8)
    yield estimate("coordinates that are kept", kept, 8 / margin**2, wrong=7 / margin**2)
    yield estimate("change of the score", moved, 0.0, wrong=margin / 4)
    variance = float(jnp.sum(u**2 * w**2 * (margin**2 / (8 * w**2) - 1)))
    yield estimate("squared change of the score", moved**2, variance, wrong=2 * variance)
    yield frequency_at_most("score moved by γ", abs(moved) >= margin, 1 / 8)

    # five coordinates that hold three quarters of the length: the first of these are kept whatever the coins say
    mixed = _unit(w.at[:5].set(jnp.sqrt(3 / 5)))
    some, count = (np.asarray(a) for a in _sparse(mixed, margin, large_key, draws))
    large = np.asarray(mixed) ** 2 >= margin**2 / 8
    yield equal("large coordinates", some[:, large], np.broadcast_to(np.asarray(mixed)[large], (draws, large.sum())))
    chance = np.asarray(keep_probabilities(mixed, margin)).sum()
    yield estimate("coordinates that are kept, some of them large", count, chance, wrong=1.2 * chance)
    yield at_most("coordinates that are kept, on average", count.mean(), 8 / margin**2)
    drift = some @ np.asarray(u) - float(mixed @ u)
    yield frequency_at_most("score moved by γ, some coordinates large", abs(drift) >= margin, 1 / 8)
    aimed = np.linalg.norm(sparse - np.asarray(w), axis=1)  # what the worst point of length 1 is moved by
    yield control(
        "the point does not depend on the coins: here it is chosen after them",
        frequency_at_most("score moved by γ", aimed >= margin, 1 / 8),
    )
    unclipped = np.where(large, margin**2 / (8 * np.asarray(mixed)), some) @ np.asarray(mixed)
    yield control(
        "no square is above γ²/8: here five are, and are scaled like the others",
        estimate("score of the direction of the weights", unclipped, 1.0, wrong=0.0),
    )


@claim(
    rows=("T05.27",),
    erratum="The sparsified classifier is said to predict the same for all points: it does for each, not for all.",
)
def same_prediction_for_all_points(
    key,
    *,
    d: Annotated[int, Range(500, 20_000)] = 1000,
    margin: Probability = 0.3,
    draws: Annotated[int, Range(500, 20_000)] = 1000,
):
    r"""The sparsified classifier gives all points with margin γ the label that the classifier gives them.

    As printed. For one point $u$ with $w\cdot u=\gamma$ that is so with probability $7/8$. But the point that has the
    margin $\gamma$ and otherwise looks away from $\hat w$ gets the other label.
    """
    w_key, u_key, coin_key = jax.random.split(key, 3)
    w = _unit(jax.random.normal(w_key, (d,)))

    def with_margin(v):
        """The point of length 1 with margin γ that otherwise looks like v."""
        return margin * w + jnp.sqrt(1 - margin**2) * _unit(v - (v @ w)[..., None] * w)

    sparse, _ = _sparse(w, margin, coin_key, draws)
    fixed = with_margin(jax.random.normal(u_key, (d,)))
    yield frequency_at_most("another label for one fixed point", np.asarray(sparse @ fixed) <= 0, 1 / 8)
    against = np.asarray(jnp.sum(sparse * jax.jit(with_margin)(-sparse), 1))
    yield printed(at_least("least score of all points with margin γ", against, 0.0))


def _difference_law(size, rho):
    r"""The distribution function of $\langle Mw,Mu\rangle$, by its density.

    $\frac1k\sum a_ib_i$ for normal pairs of correlation ρ is $\frac{1+\rho}{2k}\chi^2_k-\frac{1-\rho}{2k}\chi'^2_k$.
    """
    q = (np.arange(1000) + 0.5) / 1000
    first = (1 + rho) / (2 * size) * scipy.stats.chi2.ppf(q, size)
    return lambda t: scipy.stats.chi2.sf((first - np.asarray(t)[..., None]) * 2 * size / (1 - rho), size).mean(-1)


@claim(rows=("T05.29",))
def projected_classifier(
    key,
    *,
    margin: Annotated[float, Range(0.1, 0.4)] = 0.2,
    draws: Annotated[int, Range(500, 20_000)] = 500,
):
    r"""A random map to a few times 1/γ² dimensions keeps the score of a point, whatever the number of coordinates.

    $M$ has $k$ rows of independent entries $\mathcal N(0,1/k)$ and is drawn before the data: a helper string. From the
    $k$ numbers $Mw$ the classifier is $\hat w=M^\top Mw$. For fixed $w,u$ of length 1 and $\rho=w\cdot u$,
    $\hat w\cdot u=\langle Mw,Mu\rangle$ has the law of $\frac{1+\rho}{2k}\chi^2_k-\frac{1-\rho}{2k}\chi'^2_k$, with
    mean $\rho$ and variance $(1+\rho^2)/k$, in 20 dimensions as in 200. With $k=1,2,4,8$ over $\gamma^2$ it moves by
    $\gamma=0.2$ with probability .33, .17, .055, .007 if $\rho=0.3$. The $k$ numbers are $O(1)$, and rounded to $r$
    levels they move the score by $\|Mw\|_\infty\|Mu\|_1/(r-1)$ at most. A point that is chosen after $M$ is moved by
    more.
    """
    sizes = [round(c / margin**2) for c in (1, 2, 4, 8)]
    instances = [*((size, 20) for size in sizes), (sizes[0], 200)]
    rho, changes, bounds = 0.3, [], []
    for (size, d), instance_key in zip(instances, jax.random.split(key, len(instances)), strict=True):
        found = _projected(instance_key, rho, d, size, draws)
        score, largest, change, allowed, across = (np.asarray(a) for a in found)
        law = _difference_law(size, rho)
        half = partial(scipy.stats.norm.cdf, loc=rho, scale=0.5 * np.sqrt((1 + rho**2) / size))
        yield same_law(f"score of a point, k = {size} in {d} dimensions", score, law, wrong=half)
        chance = float(1 - law(rho + margin) + law(rho - margin))
        if chance > 0.02:  # fewer could be none of these draws
            events = (np.abs(score - rho) >= margin).astype(float)
            name = f"score moved by γ, k = {size} in {d} dimensions"
            yield estimate(name, events, chance, wrong=min(3 * chance, 1.0))
        # the k numbers are normal with deviation 1/√k: all of all draws are below this but once in a million
        most = np.sqrt(2 * np.log(2e6 * size * draws) / size)
        yield at_most(f"largest of the numbers, k = {size} in {d} dimensions", largest, most)
        changes.append(change)
        bounds.append(allowed)
    yield at_most("change by rounding to 16 levels", np.stack(changes), np.stack(bounds))
    yield control(
        "the point does not depend on M: here it is chosen after it",
        at_most("score of a point at right angles to the weights", across, margin),
    )


@partial(jax.jit, static_argnums=(2, 3, 4))
def _projected(key, rho, d, size, draws):
    """Over random maps: the score of a point, the largest number, the change by rounding and what it may be.

    The last is the score of the worst point at right angles to the weights.
    """
    w_key, u_key, map_key = jax.random.split(key, 3)
    w, v = _unit(jax.random.normal(w_key, (d,))), jax.random.normal(u_key, (d,))
    u = rho * w + jnp.sqrt(1 - rho**2) * _unit(v - (v @ w) * w)

    def one(key):
        found, rounded = project(w, size, key=key), project(w, size, key=key, levels=16)
        largest = jnp.max(jnp.abs(found.numbers))
        change = jnp.abs((rounded.w - found.w) @ u)
        allowed = largest / 15 * jnp.sum(jnp.abs(project(u, size, key=key).numbers))  # Mu: u through the same map
        across = jnp.linalg.norm(found.w - (found.w @ w) * w)
        return found.w @ u, largest, change, allowed, across

    return jax.lax.map(one, jax.random.split(map_key, draws), batch_size=50)
