r"""How noisy the gradient of a network is: the covariance of its per-example gradients, which is never formed.

With $g_i=\nabla\ell_i(\theta)$ for the examples $i=1,\dots,n$, $G=\frac1n\sum g_i$ and
$\Sigma=\frac1n\sum(g_i-G)(g_i-G)^\top$. `corollary.optimization.noise` has the same quantities for problems that are
small enough to hold all $g_i$.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.stats import norm
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from corollary._engine.cpu_ready import cpu_ready
from corollary._show import shown
from corollary._types import LossLike, NetworkLike, Scalar
from corollary._validate import positive, real, whole, within
from corollary.landscape.lanczos import Eigenpairs, eigenpairs
from corollary.network.apart import require_apart, require_mean
from corollary.network.batches import arrange, count, first_examples, fold, pair
from corollary.network.loss import of_examples
from corollary.network.parts import require_network, split
from corollary.optimization.noise import batch_factor, decreasing_step
from corollary.optimization.rates import sgd

# up to this many entries the gradients of all examples are held while eigenpairs are sought
STORED = 1 << 27


class GradientNoise(eqx.Module):
    r"""The noise of one example's gradient; exact for the data given, except `interval` and `top`.

    - `examples`: $n$; `parameters`: $p$.
    - `gradient_norm`: $\|G\|$; `second_moment`: $\frac1n\sum\|g_i\|^2$; `trace`: $\operatorname{tr}\Sigma$.
    - `noise_scale`: $\operatorname{tr}\Sigma/\|G\|^2$: in a batch of so many examples, drawn with replacement, noise
      and gradient have the same size. Infinite if $G=0$.
    - `interval` (2,): a confidence interval for the noise scale of the population that the examples were drawn from.
      Its upper end is infinite where the data do not tell the population's gradient from zero.
    - `top`: the largest eigenpairs of $\Sigma$ with bounds on their errors; None if not asked for.
    """

    examples: int = eqx.field(static=True)
    parameters: int = eqx.field(static=True)
    gradient_norm: jax.Array
    second_moment: jax.Array
    trace: jax.Array
    noise_scale: jax.Array
    interval: jax.Array
    top: Eigenpairs | None

    __repr__ = shown

    def batch_variance(self, batch_size: int, *, replacement: bool = True) -> Float[Array, ""]:
        r"""$\mathbb E\|G_B-G\|^2$ for the mean gradient $G_B$ of a random batch of $B$ examples, exactly.

        $\operatorname{tr}\Sigma/B$ with replacement, $\frac{n-B}{B(n-1)}\operatorname{tr}\Sigma$ without.
        """
        return batch_factor(self.examples, batch_size, replacement=replacement) * self.trace


def gradient_noise(
    network: NetworkLike,
    loss: LossLike,
    data: PyTree,
    *,
    key: PRNGKeyArray | None = None,
    top: int = 0,
    confidence: float = 0.95,
    batch_size: int = 64,
    products: int = 300,
    tolerance: float = 1e-4,
    trainable: Any = None,
) -> GradientNoise:
    r"""The covariance of the per-example gradients $g_i$ of `loss(network(x_i), y_i)` over `data = (x, y)`.

    `loss` is a name or a function of one output and one target. Two passes over the data: $G$, then the deviations
    $d_i=g_i-G$, `batch_size` of them at a time, which is what the memory is: `batch_size` times $p$ numbers.

    The `interval` is Fieller's, for a ratio of two means: all $S$ for which $\hat T-S\hat Q$ is within its standard
    error, times the normal quantile of `confidence`, of zero. $\hat T=\frac n{n-1}\operatorname{tr}\Sigma$ and $\hat
    Q=\|G\|^2-\hat T/n$ have no bias; their covariance comes from the examples by the delta method
    ($\|d_i\|^2$ and $2G\cdot d_i$), with $2\hat T^2/n^2$ added for the part of $\hat Q$ that is not linear, the most it
    can be for normal noise. Premises: independent examples from one population, $n$ large.

    With `top` $=k$, the $k$ largest eigenpairs of $\Sigma$ by Lanczos (`key` starts it; `products`, `tolerance` as in
    `corollary.landscape.eigenpairs`). A product $v\mapsto\frac1n\sum d_i(d_i\cdot v)$ needs one forward and one reverse
    pass over the data and no per-example gradient; up to $np=2^{27}$ the gradients are kept instead, which is faster.

    >>> noise = gradient_noise(network, "squared", data)
    >>> bool(jnp.isclose(noise.batch_variance(2), noise.trace / 2))
    True
    """
    require_network(network)
    loss, parts, data = of_examples(loss, who="gradient_noise"), split(network, trainable), pair("data", data)
    require_apart(parts.join(), data[0])
    confidence = within("confidence", real("confidence", confidence, ""), 0.0, 1.0, open="both")
    batches, n, params, size = arrange(data, batch_size), count(data), parts.params, parts.size
    top = whole("top", top, 0, size)
    require_mean(loss, parts.join(), first_examples(batches))
    if n < 2:
        raise ValueError("data must hold at least two examples, got one.")

    own = _Own(loss.function, parts.fixed)
    mean = fold(_sum_of_gradients, (own, params), batches, _add) / n
    sums = fold(_deviations, (own, params, mean), batches, _add)
    pairs = None
    if top:
        key = jax.random.key(0) if key is None else key
        if n * size <= STORED:
            rows = [_rows(own, params, mean, batch) for batch in _listed(batches)]
            pairs = _stored_top(jnp.concatenate(rows), key, tolerance, top, products)
        else:
            pairs = _top(own, params, mean, batches, key, tolerance, top, products)
    return _summary(mean, sums, confidence, pairs, n)


@eqx.filter_jit
def _summary(mean, sums, confidence, pairs, n) -> GradientNoise:
    square, trace = jnp.sum(mean**2), sums.square / n
    ratio = jnp.where(square > 0, trace / jnp.where(square > 0, square, 1), jnp.inf)
    variance = jnp.array([sums.fourth / n - trace**2, sums.mixed / n, sums.slope / n]) / (n - 1)
    quantile = norm.ppf((1 + confidence) / 2).astype(trace.dtype)
    low, high = _fieller(trace * n / (n - 1), square - trace / (n - 1), variance, n, quantile)
    return GradientNoise(
        examples=n,
        parameters=mean.shape[0],
        gradient_norm=jnp.sqrt(square),
        second_moment=trace + square,
        trace=trace,
        noise_scale=ratio,
        interval=jnp.stack([low, high]),
        top=pairs,
    )


def _fieller(trace, square, variance, n, z):
    r"""Both ends of $\{S\ge0:(T-SQ)^2\le z^2\operatorname{var}(T-SQ)\}$."""
    of_trace, both, of_square = variance
    of_square = of_square + 2 * (trace / n) ** 2
    a, b, c = square**2 - z**2 * of_square, trace * square - z**2 * both, trace**2 - z**2 * of_trace
    root = jnp.sqrt(jnp.maximum(b**2 - a * c, 0))
    resolved = (a > 0) & (square > 0)
    # (b - root)/a without its cancellation: the lower root for a > 0, the positive one for a < 0
    bounded = (c > 0) & (b + root > 0)
    low = jnp.where(bounded, c / jnp.where(bounded, b + root, 1), 0)
    return low, jnp.where(resolved, (b + root) / jnp.where(resolved, a, 1), jnp.inf)


class _Sums(NamedTuple):
    square: jax.Array  # of |d|^2
    fourth: jax.Array  # of |d|^4
    mixed: jax.Array  # of |d|^2 times 2 G.d
    slope: jax.Array  # of (2 G.d)^2


class _Own(eqx.Module):
    """The loss of one example `(x, y)` with what is not differentiated put in."""

    loss: Any
    fixed: Any

    def __call__(self, params, example):
        x, y = example
        return self.loss(eqx.combine(params, self.fixed)(x), y)

    def each(self, params, batch):
        """The losses of the examples of a batch."""
        return jax.vmap(lambda *example: self(params, example))(*batch)


def _add(a, b):
    return jax.tree.map(jnp.add, a, b)


def _listed(parts):
    if parts.batches is not None:
        for i in range(jax.tree.leaves(parts.batches)[0].shape[0]):
            yield jax.tree.map(lambda a, i=i: a[i], parts.batches)
    if parts.rest is not None:
        yield parts.rest


@eqx.filter_jit
def _sum_of_gradients(loss, params, batch):
    return ravel_pytree(jax.grad(lambda p: jnp.sum(loss.each(p, batch)))(params))[0]


@eqx.filter_jit
def _rows(loss, params, mean, batch):
    """The deviations of the examples of a batch, in rows."""
    return jax.vmap(lambda *one: ravel_pytree(jax.grad(loss)(params, one))[0])(*batch) - mean


@eqx.filter_jit
def _deviations(loss, params, mean, batch) -> _Sums:
    rows = _rows(loss, params, mean, batch)
    square, slope = jnp.sum(rows**2, 1), 2 * jnp.matmul(rows, mean, precision=jax.lax.Precision.HIGHEST)
    return _Sums(*(jnp.sum(a) for a in (square, square**2, square * slope, slope**2)))


@eqx.filter_jit
def _stored_top(rows, key, tolerance, k, products) -> Eigenpairs:
    def product(v):
        along = jnp.matmul(rows, v, precision=jax.lax.Precision.HIGHEST)
        return jnp.matmul(along, rows, precision=jax.lax.Precision.HIGHEST) / rows.shape[0]

    return eigenpairs(product, rows.shape[1], k, key=key, products=products, tolerance=tolerance, dtype=rows.dtype)


@eqx.filter_jit
def _top(loss, params, mean, parts, key, tolerance, k, products) -> Eigenpairs:
    _, unravel = ravel_pytree(params)
    n = sum(int(np.prod(jax.tree.leaves(p)[0].shape[:i])) for p, i in zip(parts, (2, 1), strict=True) if p is not None)

    def of_batch(v, batch):
        _, push = jax.linearize(lambda p: loss.each(p, batch), params)
        along = push(unravel(v)) - mean @ v
        (back,) = jax.linear_transpose(push, params)(along)
        # the deviations of all examples add up to zero, those of a batch do not
        return ravel_pytree(back)[0] - jnp.sum(along) * mean

    @cpu_ready
    def product(v):
        return fold(of_batch, (v,), parts, _add) / n

    return eigenpairs(product, mean.shape[0], k, key=key, products=products, tolerance=tolerance, dtype=mean.dtype)


class SGDPromise(NamedTuple):
    r"""What the rates of `corollary.optimization.rates.sgd` promise, with the constants of one point.

    - `change`: a bound on $\mathbb E[f(\theta_1)-f(\theta_0)]$ of the next step.
    - `decreasing_step`: below this step the bound is negative: the loss decreases in expectation.
    - `average_gradient`: a bound on $\frac1K\sum_{s<K}\mathbb E\|\nabla f(\theta_s)\|^2$; infinite for $\eta>1/L$,
      about which the theorem says nothing.
    - `floor`: what remains of it for $K\to\infty$.
    """

    change: jax.Array
    decreasing_step: jax.Array
    average_gradient: jax.Array
    floor: jax.Array

    __repr__ = shown


def sgd_promise(
    noise: GradientNoise, L: Scalar, gap: Scalar, *, step: Scalar, batch_size: int, steps: int, replacement: bool = True
) -> SGDPromise:
    r"""The promise for `steps` steps of size `step` on batches of `batch_size` examples, with $V=\mathbb E\|G_B-G\|^2$.

    Premises of all of them: the loss is $L$-smooth wherever the iterates go. The sharpness at this point bounds $L$
    from below only, so that with it in place of $L$ the promise holds as long as the sharpness does not grow. Of the
    bounds on the average, moreover: $V$ is nowhere on the way larger than it is here ($\kappa_1=V$, $\kappa_2=1$),
    batches are drawn independently of each other, and `gap` is at least $f(\theta_0)-\inf f$; for a loss that is never
    negative its value will do.
    """
    if not isinstance(noise, GradientNoise):
        raise TypeError(f"noise must be a GradientNoise, got {type(noise).__name__}.")
    L, step = positive("L", real("L", L, "")), positive("step", real("step", step, ""))
    gap = within("gap", real("gap", gap, ""), 0.0)
    variance = noise.batch_variance(whole("batch_size", batch_size), replacement=replacement)
    second_moment = noise.gradient_norm**2 + variance
    covered = step * L <= 1
    allowed = jnp.where(covered, step, 0.5 / L)
    average = sgd.nonconvex_variance(L, gap, whole("steps", steps), kappa1=variance, step=allowed)
    return SGDPromise(
        sgd.expected_change(L, noise.gradient_norm, second_moment, step=step),
        # without gradient and noise there is no step at all
        decreasing_step(L, noise.gradient_norm, jnp.maximum(second_moment, jnp.finfo(second_moment.dtype).tiny)),
        jnp.where(covered, average, jnp.inf),
        jnp.where(covered, step * L * variance, jnp.inf),
    )
