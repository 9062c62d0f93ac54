r"""What one batch tells of its gradient and of the step that was taken: is it large enough, when to stop, overshoot.

With the gradients $g_1,\dots,g_B$ of the examples of a batch, in rows, and their mean $G$. `gradient_noise` has the
covariance for a network and its data; here the gradients are at hand.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PyTree

from corollary._show import shown
from corollary._validate import positive, real


class GradientTests(NamedTuple):
    r"""The numbers of one batch of $B$ gradients in $p$ parameters; $\hat\Sigma$ is their covariance, with $B-1$.

    - `gradient_norm`: $\|G\|$; `trace`: $\operatorname{tr}\hat\Sigma$.
    - `norm`: $\operatorname{tr}\hat\Sigma/(B\|G\|^2)$, the squared relative error of $G$. Its part along $G$ is
      `inner_product`, $\frac1{B(B-1)}\sum(g_i\cdot G/\|G\|^2-1)^2$, and its part across `orthogonality`; they add up to
      `norm`. A batch is large enough for a tolerance $\theta$ while the one that is asked for is below $\theta^2$.
    - `signal_to_noise`: the mean over the parameters of $G_j^2/\hat\Sigma_{jj}$.
    - `early_stopping`: $1-\frac Bp\sum_jG_j^2/\hat\Sigma_{jj}$. If $G$ is nothing but noise its expectation is about 0
      (exactly $-2/(B-3)$ for normal gradients): above it there is no sign of a gradient left to follow.

    Where every gradient is the same nothing is noise: a parameter without variance is left out of both means.
    """

    gradient_norm: jax.Array
    trace: jax.Array
    norm: jax.Array
    inner_product: jax.Array
    orthogonality: jax.Array
    signal_to_noise: jax.Array
    early_stopping: jax.Array

    __repr__ = shown


def gradient_tests(gradients: PyTree) -> GradientTests:
    r"""The tests of a batch from the gradients of its examples; infinite where $G=0$.

    `gradients` is a matrix with an example in each row, or what `jax.vmap(jax.grad(...))` returns: a pytree with the
    examples along the first axis of every array.

    >>> found = gradient_tests(jnp.array([[1.0, 0.0], [1.0, 2.0]]))
    >>> float(found.norm), float(found.inner_product), float(found.orthogonality)
    (0.5, 0.25, 0.25)
    """
    leaves = [real("gradients", leaf, finite=False) for leaf in jax.tree.leaves(gradients)]
    if not leaves or any(leaf.ndim == 0 or leaf.shape[0] != leaves[0].shape[0] for leaf in leaves):
        raise ValueError("gradients must be arrays with the same examples along their first axis.")
    size = leaves[0].shape[0]
    if size < 2:
        raise ValueError("gradients must be those of at least two examples, got one.")
    rows = [leaf.reshape(size, -1) for leaf in leaves]
    even = jnp.ones(size, jnp.result_type(*rows))
    # as products with a vector of ones: sums over the examples are slow on a CPU
    means = [_times(even, a) / size for a in rows]
    deviations = [a - mean for a, mean in zip(rows, means, strict=True)]
    variances = [_times(even, d**2) / (size - 1) for d in deviations]
    square, trace = (sum(jnp.sum(a) for a in parts) for parts in ([mean**2 for mean in means], variances))
    along = jnp.sum(sum(_times(d, mean) for d, mean in zip(deviations, means, strict=True)) ** 2)
    known = square > 0
    safe = jnp.where(known, square, 1)
    norm = jnp.where(known, trace / (size * safe), jnp.inf)
    inner = jnp.where(known, along / (size * (size - 1) * safe**2), jnp.inf)
    across = jnp.where(known, jnp.maximum(norm - inner, 0), jnp.inf)
    counted = sum(jnp.sum(v > 0) for v in variances)
    ratios = sum(jnp.sum(_signal(m, v)) for m, v in zip(means, variances, strict=True))
    signal = ratios / jnp.maximum(counted, 1)
    return GradientTests(jnp.sqrt(square), trace, norm, inner, across, signal, 1 - size * signal)


def _times(a, b):
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


def _signal(mean, variance):
    return jnp.where(variance > 0, mean**2 / jnp.where(variance > 0, variance, 1), 0)


class StepFit(NamedTuple):
    r"""The parabola along one step, $\tau=0$ where it began and $\tau=1$ where it ended.

    - `overshoot`: minus the ratio of the slopes, $-\varphi'(1)/\varphi'(0)$: $-1$ if the step was too short to change
      the slope, 0 if it ended in the minimum, 1 if as far on the other side. Below $-1$ the slope grew.
    - `curvature`: $\varphi''$, which is $\Delta^\top H\Delta$ for the step $\Delta$.
    """

    overshoot: jax.Array
    curvature: jax.Array

    __repr__ = shown


def step_fit(
    values: Float[ArrayLike, "2"],
    slopes: Float[ArrayLike, "2"],
    value_errors: Float[ArrayLike, "2"],
    slope_errors: Float[ArrayLike, "2"],
) -> StepFit:
    r"""The parabola of least squares through loss and slope at both ends of a step, weighted by their standard errors.

    Premise of the weights: the four errors are independent, and normal; then the fit is the most likely one.

    >>> fit = step_fit([1.0, 0.25], [-1.0, -0.5], [0.1, 0.1], [0.1, 0.1])  # of (1 - tau/2)^2
    >>> round(float(fit.overshoot), 4), round(float(fit.curvature), 4)
    (-0.5, 0.5)
    """
    values, slopes = real("values", values, "2", finite=False), real("slopes", slopes, "2", finite=False)
    errors = [("value_errors", value_errors), ("slope_errors", slope_errors)]
    weights = 1 / jnp.concatenate([positive(name, real(name, e, "2", finite=False)) for name, e in errors])
    ends = jnp.array([[1, 0, 0], [1, 1, 0.5], [0, 1, 0], [0, 1, 1]], weights.dtype)
    # columns of one size: the slopes may be known a thousand times better than the values
    rows, target = ends * weights[:, None], jnp.concatenate([values, slopes]) * weights
    scale = jnp.sqrt(jnp.sum(rows**2, 0))
    q, r = jnp.linalg.qr(rows / scale)
    _, slope, curvature = jax.scipy.linalg.solve_triangular(r, q.T @ target) / scale
    return StepFit(_ratio(-(slope + curvature), slope), curvature)


def _ratio(a: Array, b: Array) -> Array:
    return jnp.where(b == 0, jnp.where(a == 0, 0, jnp.sign(a) * jnp.inf), a / jnp.where(b == 0, 1, b))
