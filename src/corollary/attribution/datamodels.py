r"""Datamodels: what comes out of training as a linear function of which training points were there.

$f(x)$ is a measure of the network trained on a random subset, $x_i=1$ if point $i$ is in it and $-1$ if not, each
with probability $p$ and $1-p$, independently. $f(x)\approx\theta_0+\sum_i\theta_ix_i$ is fitted over many trainings.
`fit(train, weights)` trains with weights 1 and 0, as in `corollary.attribution.retraining`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm, rankdata
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import concrete, real, whole, within
from corollary.catalog import implements
from corollary.network.batches import count, examples

FOLDS = 5


class SubsetOutputs(NamedTuple):
    """`subsets` (models, n) of 1 and -1, and `outputs` (models,) or (models, t): what was measured after training."""

    subsets: jax.Array
    outputs: jax.Array

    __repr__ = shown


class Datamodel(NamedTuple):
    r"""`weights` $\theta_i$ (n,) or (n, t) and `intercept` $\theta_0$ of the fit to all models.

    - `r2`: the share of the variance that is explained on models which the fit has not seen (five folds).
    - `interval` (2, n) or (2, n, t): a 95 % confidence interval of the weights of the best linear function. It is made
      from fits to the other folds, corrected by what these leave over, which has no bias whatever the penalty.
    """

    weights: jax.Array
    r2: jax.Array
    interval: jax.Array
    intercept: jax.Array

    __repr__ = shown

    def predict(self, subsets: Float[ArrayLike, "models n"]) -> Float[Array, "..."]:
        """The outputs that are predicted for subsets of 1 and -1."""
        return self.intercept + real("subsets", subsets, "models n") @ self.weights


def subset_outputs(
    fit: Callable,
    measure: Callable,
    train: PyTree,
    *,
    share: Scalar,
    models: int,
    key: PRNGKeyArray,
    batch_size: int | None = None,
) -> SubsetOutputs:
    r"""`measure(fit(train, weights))` for `models` random subsets, each point in with probability `share`.

    One compiled program; `batch_size` trainings run side by side, all unless given.
    """
    for name, function in (("fit", fit), ("measure", measure)):
        if not callable(function):
            raise TypeError(f"{name} must be a function, got {type(function).__name__}.")
    train, models = examples("train", train), whole("models", models)
    share = within("share", real("share", share, ""), 0.0, 1.0, open="both")
    present = jax.random.bernoulli(key, share, (models, count(train)))
    batch_size = models if batch_size is None else min(whole("batch_size", batch_size), models)

    @jax.jit
    def run(train, present):
        trained = lambda w: measure(fit(train, w))  # noqa: E731
        return jax.lax.map(trained, present.astype(jnp.result_type(float)), batch_size=batch_size)

    outputs = run(train, present)
    if outputs.ndim not in (1, 2):
        raise ValueError(f"measure must return a number or a vector, got shape {outputs.shape[1:]}.")
    return SubsetOutputs(jnp.where(present, 1, -1).astype(outputs.dtype), outputs)


@implements("T10.18")
def datamodel(
    fit: Callable,
    measure: Callable,
    train: PyTree,
    *,
    share: Scalar,
    models: int,
    key: PRNGKeyArray,
    penalty: Scalar = 0.0,
    batch_size: int | None = None,
) -> Datamodel:
    r"""Trains `models` networks on random subsets and fits their measures by a linear function of the subset.

    `measure(network)` is a number, or a vector of them, best a margin or a logit. With a `penalty` $c>0$ the fit
    minimises $\frac1{2m}\|f-\theta_0-X\theta\|^2+c\|\theta\|_1$ (lasso).
    """
    outputs = subset_outputs(fit, measure, train, share=share, models=models, key=key, batch_size=batch_size)
    return fit_datamodel(outputs, share=share, penalty=penalty)


def fit_datamodel(outputs: SubsetOutputs, *, share: Scalar, penalty: Scalar = 0.0) -> Datamodel:
    """The linear fit of `datamodel` to subsets that have been trained on already."""
    if not isinstance(outputs, SubsetOutputs):
        raise TypeError(f"outputs must be SubsetOutputs, got {type(outputs).__name__}.")
    x, f = real("subsets", outputs.subsets, "models n"), real("outputs", outputs.outputs)
    share = within("share", real("share", share, ""), 0.0, 1.0, open="both")
    penalty = within("penalty", real("penalty", penalty, ""), 0.0)
    m, n = x.shape
    if f.ndim not in (1, 2) or f.shape[0] != m:
        raise ValueError(f"outputs must have shape ({m},) or ({m}, t), one row per subset, got {f.shape}.")
    needed = (n + 2) * FOLDS // (FOLDS - 1) + 1
    if m < needed and concrete(penalty) and penalty == 0:
        raise ValueError(
            f"least squares for {n} points needs at least {needed} models, got {m}: train more, or give a penalty."
        )
    if m < 2 * FOLDS:
        raise ValueError(f"outputs must hold at least {2 * FOLDS} models, got {m}.")
    found = _fit(x, f.reshape(m, -1), share, penalty)
    drop = (lambda a: a[..., 0]) if f.ndim == 1 else (lambda a: a)
    return Datamodel(*map(drop, found))


@jax.jit
def _fit(x, f, share, penalty) -> Datamodel:
    m = x.shape[0]
    fold = jnp.arange(m) % FOLDS
    weights, intercept = _lasso(x, f, jnp.ones(m, x.dtype), penalty)
    others = jax.lax.map(lambda k: _lasso(x, f, (fold != k).astype(x.dtype), penalty), jnp.arange(FOLDS))
    predicted = others[1][:, None] + jnp.einsum("mn,knt->kmt", x, others[0])
    left = f - predicted[fold, jnp.arange(m)]
    mean = 2 * share - 1
    # E[(x_i - mean)(f - θ'x)] / var is θ_i - θ'_i for any θ' that is independent of x
    centred = (x - mean) / (4 * share * (1 - share))
    unbiased = others[0].mean(0) + jnp.einsum("mn,mt->nt", centred, left) / m
    spread = jnp.einsum("mn,mt->nt", centred**2, left**2) / m - (jnp.einsum("mn,mt->nt", centred, left) / m) ** 2
    half = norm.ppf(0.975).astype(x.dtype) * jnp.sqrt(jnp.maximum(spread, 0) / m)
    total = jnp.sum((f - f.mean(0)) ** 2, 0)
    r2 = 1 - jnp.sum(left**2, 0) / jnp.where(total > 0, total, 1)
    return Datamodel(weights, r2, jnp.stack([unbiased - half, unbiased + half]), intercept)


def _lasso(x, f, counted, penalty):
    r"""Weights (n, t) and intercept (t,) of $\frac1{2m}\|f-\theta_0-x\theta\|^2+c\|\theta\|_1$ over the counted rows.

    Accelerated steps along the gradient with soft thresholds, from least squares: there already without a penalty.
    """
    number = counted.sum()
    middle, level = counted @ x / number, counted @ f / number
    x, f = (x - middle) * counted[:, None], (f - level) * counted[:, None]
    gram, along = x.T @ x / number, x.T @ f / number
    values, vectors = jnp.linalg.eigh(gram)
    floor = values[-1] * x.shape[1] * jnp.finfo(x.dtype).eps
    inverse = jnp.where(values > floor, 1 / jnp.where(values > floor, values, 1), 0)
    start = vectors @ (inverse[:, None] * (vectors.T @ along))
    step, level_out = 1 / values[-1], penalty / values[-1]

    def once(state):
        theta, look, t, _, i = state
        moved = look - step * (gram @ look - along)
        new = jnp.sign(moved) * jnp.maximum(jnp.abs(moved) - level_out, 0)
        grown = (1 + jnp.sqrt(1 + 4 * t**2)) / 2
        # started again where momentum leads uphill
        uphill = jnp.sum((look - new) * (new - theta)) > 0
        look = jnp.where(uphill, new, new + (t - 1) / grown * (new - theta))
        return new, look, jnp.where(uphill, 1.0, grown), jnp.abs(new - theta).max(), i + 1

    def go_on(state):
        theta, _, _, change, i = state
        return (penalty > 0) & (i < 10_000) & (change > 4 * jnp.finfo(x.dtype).eps * jnp.abs(theta).max())

    first = (start, start, jnp.ones((), x.dtype), jnp.full((), jnp.inf, x.dtype), 0)
    theta = jax.lax.while_loop(go_on, once, first)[0]
    return theta, level - middle @ theta


def linear_datamodelling_score(
    scores: Float[ArrayLike, "n"] | Float[ArrayLike, "n t"], outputs: SubsetOutputs
) -> Float[Array, "..."]:
    r"""The rank correlation of $\sum_{i\in S}s_i$ with what was measured after training on $S$, over subsets $S$.

    `scores` (n,) or (n, t) say what the presence of a point adds to the output; where they are changes of a loss on
    removal and the output is that loss, take their negative. Between -1 and 1 (Spearman), ties in the mean rank.
    """
    if not isinstance(outputs, SubsetOutputs):
        raise TypeError(f"outputs must be SubsetOutputs, got {type(outputs).__name__}.")
    scores, f = real("scores", scores), outputs.outputs
    wanted = (outputs.subsets.shape[1], *f.shape[1:])
    if scores.shape != wanted:
        raise ValueError(f"scores must have shape {wanted}, one number per point and output, got {scores.shape}.")
    predicted = (outputs.subsets > 0).astype(scores.dtype) @ scores
    ranks = [rankdata(a, axis=0) for a in (predicted, f)]
    a, b = (r - r.mean(0) for r in ranks)
    size = jnp.sqrt(jnp.sum(a**2, 0) * jnp.sum(b**2, 0))
    return jnp.sum(a * b, 0) / jnp.where(size > 0, size, 1)


class Fourier(NamedTuple):
    r"""A function of subsets in the basis of products of $\frac{x_i-\mu}\sigma$, $\mu=2p-1$, $\sigma=2\sqrt{p(1-p)}$.

    `coefficients` has an axis of length 2 for each point: index 1 where the point is in the product. `weights` are
    those of the best linear function, in $x_i=\pm1$; `by_degree` the squared coefficients summed over each degree.
    """

    coefficients: jax.Array
    weights: jax.Array
    intercept: jax.Array
    by_degree: jax.Array

    __repr__ = shown


@implements("T10.20")
def biased_fourier(f: Float[ArrayLike, "..."], p: Scalar) -> Fourier:
    r"""The coefficients $\hat f_p(S)=\mathbb E[f(x)\prod_{i\in S}\frac{x_i-\mu}\sigma]$ for independent $P\{x_i=1\}=p$.

    `f` holds the values on all subsets, with an axis of length 2 for each point: index 1 where the point is there. The
    basis is orthonormal, so that the variance that no linear function explains is the weight of degrees 2 and more.

    >>> biased_fourier([[0.0, 0.0], [0.0, 1.0]], 0.5).by_degree.tolist()
    [0.0625, 0.125, 0.0625]
    """
    f, p = real("f", f), within("p", real("p", p, ""), 0.0, 1.0, open="both")
    n = f.ndim
    if n == 0 or set(f.shape) != {2}:
        raise ValueError(f"f must have an axis of length 2 for each point, got shape {f.shape}.")
    p = p.astype(f.dtype)
    root = jnp.sqrt(p * (1 - p))
    change = jnp.stack([jnp.stack([1 - p, p]), jnp.stack([-root, root])])
    coefficients = f
    for _ in range(n):  # the first axis is transformed and becomes the last
        coefficients = jnp.moveaxis(jnp.tensordot(change, coefficients, 1), 0, -1)
    flat = coefficients.reshape(-1)
    single = 2 ** jnp.arange(n - 1, -1, -1)
    weights = flat[single] / (2 * root)
    degree = jnp.indices(f.shape).reshape(n, -1).sum(0)
    by_degree = jax.ops.segment_sum(flat**2, degree, n + 1)
    return Fourier(coefficients, weights, flat[0] - (2 * p - 1) * weights.sum(), by_degree)
