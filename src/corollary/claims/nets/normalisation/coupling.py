"""Layers that are not normalised depend on each other: one weight per layer shows it."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Range, at_most, claim, control, equal, rate
from corollary.nets.normalisation import ScalarProductNetwork, updated_output


@claim(rows=("B10.27",))
def layers_are_coupled(key, *, target: Annotated[float, Range(-5, 5)] = 2.0):
    r"""A step of gradient descent on a product of L weights is a polynomial of degree L in the step size.

    For $y=(\prod_{l=1}^Lw_l)x$ and a loss with slopes $g_l=\partial\ell/\partial w_l$, the step
    $w_l\leftarrow w_l-\eta g_l$ gives
    $$y^{new}=\sum_{k=0}^L(-\eta)^kx\sum_{|S|=k}\prod_{l\in S}g_l\prod_{l\notin S}w_l.$$
    The gradient promises the terms up to the first order. With equal weights $w$ and $r=\eta g/w$ the promise
    $1-Lr$ is kept up to $(1-r)^L$: the deeper the network, the smaller the step for which it is worth anything. And
    $\partial y/\partial w_1=x\prod_{l>1}w_l$ vanishes or explodes with the depth like the *factors* $w_l$, below or
    above 1 (B says: like the gradients).
    """
    depths = (2, 10, 50)
    etas = jnp.linspace(0.0, 0.02, 21)

    def loss(weights, x):
        return 0.5 * (ScalarProductNetwork(weights)(x) - target) ** 2

    @jax.jit
    def measure(key):
        found = []
        for depth in depths:
            weights = jax.random.uniform(key, (depth,), minval=0.9, maxval=1.1)
            slopes = jax.grad(loss)(weights, 1.0)
            stepped = jax.vmap(lambda eta, w=weights, g=slopes: ScalarProductNetwork(w - eta * g)(1.0))(etas)
            found.append((stepped, updated_output(weights, slopes)(etas), updated_output(weights, slopes)(etas, 1)))
        # the slope by the first weight, of networks of every depth: the others are switched to one
        alive = jnp.arange(60) < jnp.arange(1, 61)[:, None]
        first = lambda w, on: jax.grad(lambda v: ScalarProductNetwork(jnp.where(on, v, 1.0))(1.0))(w * jnp.ones(60))[0]  # noqa: E731
        return found, jax.vmap(lambda w: jax.vmap(lambda on: first(w, on))(alive))(jnp.array([0.9, 1.1]))

    found, first = measure(key)
    for depth, (stepped, polynomial, _) in zip(depths, found, strict=True):
        yield equal(f"output after the step, {depth} layers", stepped, polynomial, x=etas, along="step size")
    shallow, deep = found[0], found[-1]
    # second order of two layers: g1 g2 eta^2 with |g| <= 1.3 * 1.1 and eta <= 0.02
    yield at_most("2 layers: first order only", jnp.abs(shallow[0] - shallow[2]), 1e-3, x=etas, along="step size")
    yield control(
        "50 layers",
        at_most("first order only", jnp.abs(deep[0] - deep[2]), 1e-3, x=etas, along="step size"),
    )
    for w, slopes in zip((0.9, 1.1), first, strict=True):
        yield rate(
            f"slope by the first weight, weights {w}", np.arange(60), slopes, np.log(w), tolerance=1e-9, axes="semi-log"
        )
