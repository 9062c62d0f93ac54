"""ReLU networks with bounded weights: how well one unit, and two layers of any width, fit random signs."""

from functools import partial
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Range, Size, at_least, at_most, claim, control, rate
from corollary.generalization import (
    ball_supremum,
    norm_bounded_complexity,
    rademacher,
    relu_unit_supremum,
    two_layer_supremum,
)


@claim(rows=("B08.22",))
def one_relu_unit(key, *, m: Annotated[int, Range(2, 10)] = 9, radius: Annotated[float, Range(0.1, 10)] = 2.0):
    r"""One ReLU unit fits signs no better than a linear function with the same length of its weights.

    $\hat R\le\frac{WD}{\sqrt m}$ for $x\mapsto\max(w\cdot x,0)$ with $\|w\|\le W$ and $\|x_i\|\le D$, since the ReLU is
    1-Lipschitz. Summed over all signs, the supremum over a circle of directions taken arc by arc.
    """
    x = jax.random.normal(key, (m, 2))
    x = x / jnp.max(jnp.linalg.norm(x, axis=1))
    unit = rademacher(partial(relu_unit_supremum, radius=radius), x).value
    line = rademacher(partial(ball_supremum, radius=radius), x).value
    yield at_most("one unit, against linear functions", unit, line)
    yield at_most("one unit, against the bound", unit, radius / np.sqrt(m))
    # both parts of x = relu(x) - relu(-x) are units: together they do what a linear function does
    yield at_least("one unit, against half of linear functions", unit, line / 2)
    far = rademacher(partial(relu_unit_supremum, radius=radius), 8 * x).value
    yield control("points have a length of D at most: here 8 D", at_most("one unit", far, radius / np.sqrt(m)))


def _outputs(layers, x):
    """A network without biases: the ReLU between its layers."""
    for layer in layers[:-1]:
        x = jnp.maximum(x @ layer.T, 0)
    return x @ layers[-1].T


@claim(rows=("B08.23", "B08.24"))
def norm_bounded_networks(
    key, *, bound: Annotated[float, Range(0.2, 3)] = 1.3, draws: Annotated[int, Range(100, 2000)] = 300, width: Size = 6
):
    r"""Networks of bounded Frobenius norms fit n signs to (2B)^L/√n at most, whatever their widths.

    $\hat R(\mathcal F_B)\le(2B)^L/\sqrt n$ for $\|x_i\|\le1$ and $\|W_i\|_F\le B$ (Theorem 65). With two layers one
    unit is the best network, and wider ones are not better; in the plane its supremum is exact, and falls like
    $1/\sqrt n$. Networks of three layers that pass one unit on are below their bound too. If only the weights of each
    unit are bounded, eight equal units are beyond it.
    """
    point_key, sign_key, net_key = jax.random.split(key, 3)
    sizes = np.array([8, 16, 32, 64, 128])
    fits = []
    for n in sizes:
        angle = jax.random.uniform(jax.random.fold_in(point_key, n), (n,)) * 2 * jnp.pi
        x = jnp.stack([jnp.cos(angle), jnp.sin(angle)], 1)
        key_of_size = jax.random.fold_in(sign_key, n)
        fits.append(rademacher(partial(two_layer_supremum, radius=bound), x, key=key_of_size, draws=draws))
    upper = np.array([float(fit.interval[1]) for fit in fits])
    yield at_most("two layers", upper, norm_bounded_complexity(sizes, bound, 2), x=sizes, along="n")
    # each value is known to 3 percent, over a range of 2.8 in ln n: the slope to 0.03
    yield rate("two layers, against n", sizes, [float(fit.value) for fit in fits], -0.5, tolerance=0.15, along="n")

    @jax.jit
    def measure(sign_key, net_key, x):
        signs = jax.random.rademacher(sign_key, (draws, len(x)), float)
        exact = two_layer_supremum(signs, x, radius=bound)
        first, second = jax.random.normal(net_key, (500, width, 2)), jax.random.normal(net_key, (500, 1, width))
        first, second = (bound * w / jnp.linalg.norm(w, axis=(1, 2), keepdims=True) for w in (first, second))
        random = jnp.max(signs @ jax.vmap(lambda a, b: _outputs([a, b], x)[:, 0])(first, second).T, 1)
        turn = 2 * jnp.pi * jnp.arange(512) / 512
        units = bound * jnp.stack([jnp.cos(turn), jnp.sin(turn)], 1)[:, None]

        def reached(*after):
            fit = signs @ jax.vmap(lambda unit: _outputs([unit, *after], x)[:, 0])(units).T
            return jnp.max(jnp.abs(fit), 1)

        one = jnp.full((1, 1), bound)
        each = jax.vmap(lambda unit: _outputs([jnp.tile(unit, (8, 1)), jnp.full((1, 8), bound)], x)[:, 0])(units)
        return exact, random, reached(one), reached(one, one), jnp.max(jnp.abs(signs @ each.T), 1)

    exact, random, grid, deeper, equal_units = (np.asarray(a) for a in measure(sign_key, net_key, x))
    yield at_most("random networks, against one unit", random, exact)
    yield at_most("one unit on a grid of directions", grid, exact)
    # between two of 512 directions a sum of n terms changes by n B² π/512 at most
    yield at_least("one unit on a grid of directions, from below", grid, exact - len(x) * bound**2 * np.pi / 512)
    means = np.array([deeper.mean(), equal_units.mean()]) / len(x)
    yield at_most("three layers with one unit each", means[0], norm_bounded_complexity(len(x), bound, 3))
    yield control(
        "the norm of each layer is bounded: here that of each of eight units",
        at_most("two layers", means[1], norm_bounded_complexity(len(x), bound, 2)),
    )
