r"""Full-batch gradient descent with an eye on the sharpness: where the step decides how sharp a minimum can be.

On a quadratic, gradient descent is stable where the largest eigenvalue of the Hessian is below $2/\eta$. On networks
the sharpness grows until it meets that value, and stays there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import ArrayLike, Float, PyTree

from corollary._charts import lines
from corollary._show import shown
from corollary._types import LossLike, NetworkLike
from corollary._validate import positive, real, whole
from corollary.catalog import implements
from corollary.landscape.lanczos import eigenpairs
from corollary.network.apart import require_mean
from corollary.network.batches import examples
from corollary.network.loss import resolved
from corollary.network.parts import split

WARM = 3


class SharpnessPath(NamedTuple):
    """Loss, largest Hessian eigenvalue and share of uphill steps since the last snapshot, each `(e, snapshots)`.

    `steps` are the numbers of the snapshots, `step` the step sizes, `(e,)`.
    """

    steps: jax.Array
    losses: jax.Array
    sharpness: jax.Array
    uphill: jax.Array
    step: jax.Array

    __repr__ = shown

    def plot(self) -> Any:
        r"""An Altair chart of the sharpness along the training, and of $2/\eta$ for each step size (dashed)."""
        steps, sharpness, sizes = (np.asarray(a, float) for a in (self.steps, self.sharpness, self.step))
        rows = [
            {"step": float(t), "sharpness": float(s), "curve": name, "step size": f"η = {size:g}"}
            for size, values in zip(sizes, sharpness, strict=True)
            for name, line in (("measured", values), ("2/η", np.full_like(values, 2 / size)))
            for t, s in zip(steps, line, strict=True)
        ]
        return lines(rows, "step", "sharpness", title="largest Hessian eigenvalue", colour="step size", dashes="curve")


@implements("T02.37")
def sharpness_path(
    network: NetworkLike,
    loss: LossLike,
    data: PyTree,
    step: Float[ArrayLike, "e"],
    *,
    steps: int = 2000,
    every: int = 50,
    products: int = 12,
    trainable: Any = None,
) -> SharpnessPath:
    r"""Gradient descent on the mean loss with each of the sizes in `step`, from the same network, in one program.

    At the start and every `every` steps the sharpness is taken by Lanczos with `products` products, started from the
    eigenvector found before, which moves slowly.

    >>> sharpness_path(network, "squared", data, [0.1, 0.2], steps=4, every=2).sharpness.shape
    (2, 3)
    """
    loss, parts, data = resolved(loss), split(network, trainable), examples("data", data)
    require_mean(loss, parts.join(), data, apart=False)
    sizes = positive("step", real("step", step, "e"))
    steps, every, products = whole("steps", steps), whole("every", every), whole("products", products, 3)
    flat, unravel = ravel_pytree(parts.params)
    snapshots = steps // every

    def value(theta):
        return loss(parts.join(unravel(theta)), data)

    def run(size):
        def stretch(carry, inputs):
            theta, vector = carry
            key, step = inputs

            def descend(carry, _):
                theta, before, uphill = carry
                now, slope = jax.value_and_grad(value)(theta)
                return (theta - step * slope, now, uphill + (now > before)), None

            (theta, _, uphill), _ = jax.lax.scan(descend, (theta, jnp.inf, 0), length=every)
            product = jax.linearize(jax.grad(value), theta)[1]
            top = eigenpairs(
                product, theta.size, 1, key=key, products=products, basis=products, start=vector, dtype=theta.dtype
            )
            return (theta, top.vectors[0]), (value(theta), top.values[0], uphill)

        # before the first step, a few rounds without any find the eigenvector that the others start from
        keys = jax.random.split(jax.random.key(0), WARM + snapshots)
        moves = jnp.where(jnp.arange(WARM + snapshots) < WARM, 0, size)
        start = flat, jax.random.normal(jax.random.key(1), flat.shape, flat.dtype)
        losses, sharpness, uphill = jax.lax.scan(stretch, start, (keys, moves))[1]
        return losses[WARM - 1 :], sharpness[WARM - 1 :], uphill[WARM - 1 :] / max(every - 1, 1)

    return SharpnessPath(every * jnp.arange(snapshots + 1), *jax.vmap(run)(sizes), sizes)
