"""One step along the gradient turns the sign of a network as it is drawn, and of a linear one exactly."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its special functions load slowly, so only when a claim runs

from corollary.evidence import (
    Range,
    Size,
    at_least,
    claim,
    control,
    equal,
    estimate,
    frequency_at_most,
    printed,
    rate,
)
from corollary.robustness import TwoLayerNetwork, one_step_flip, random_two_layer, sphere_points

Trials = Annotated[int, Range(50, 5000)]


def _drawn(key, units, most, dim, activation):
    """A random network of `dim` features among `most`, so that one program serves all dimensions, and a point."""
    x_key, f_key = jax.random.split(key)
    there = jnp.arange(most) < dim
    x = jax.random.normal(x_key, (most,)) * there
    network = random_two_layer(units, most, activation, key=f_key)
    inner = network.inner * there * jnp.sqrt(most / dim)
    return TwoLayerNetwork(network.outer, inner, network.bias, activation), x * jnp.sqrt(dim) / jnp.linalg.norm(x)


@claim(rows=("B12.19", "B12.23"))
def one_step_turns_the_sign(key, *, trials: Trials = 300, units: Annotated[int, Range(50, 2000)] = 60):
    r"""At initialisation a step of length O(1) against the gradient turns the sign of the output, in high dimension.

    $f(x)=\frac1{\sqrt k}\sum_ja_j\tanh(w_j\cdot x)$ as drawn, $\|x\|=\sqrt d$. The step
    $-2f(x)\nabla f(x)/\|\nabla f(x)\|^2$ turns the sign with high probability when $d$ is large, here in more than 85 %
    of the cases from $d=30$ on; its length does not grow with $d$, so that relative to $x$ it falls as $d^{-1/2}$. A
    random direction of the same length seldom turns it, and with a constant activation there is no gradient.
    """
    dims = (30, 60, 120, 240, 480)

    @jax.jit
    def measure(key):
        def one(key, dim, activation=jnp.tanh):
            draw_key, v_key = jax.random.split(key)
            network, x = _drawn(draw_key, units, dims[-1], dim, activation)
            found = one_step_flip(network, x[None])
            v = jax.random.normal(v_key, x.shape) * (x != 0)
            elsewhere = network(x + found.distance[0] * v / jnp.linalg.norm(v))
            return found.success[0], found.distance[0], found.before[0] * elsewhere < 0

        def many(key):
            return jax.vmap(lambda d: one(key, d))(jnp.array(dims))

        keys = jax.random.split(key, trials)
        flat = jax.lax.map(lambda k: one(k, dims[0], jnp.zeros_like)[0], keys[:50])
        return *jax.lax.map(many, keys, batch_size=10), flat

    turned, distance, at_random, flat = map(np.asarray, measure(key))
    yield frequency_at_most("sign not turned, all dimensions", ~turned.ravel(), 0.15)
    middle = distance.mean(0)
    # the lengths of 300 steps vary by three quarters of their mean, which is so known to 4 %: a slope over 1.2 decades
    # to 0.02, and six times that with three degrees of freedom
    yield rate("length of the step over that of x", dims, middle / np.sqrt(dims), -0.5, tolerance=0.25, along="d")
    yield control(
        "a step along the gradient: here in a random direction",
        frequency_at_most("sign not turned, all dimensions", ~at_random.ravel(), 0.15),
    )
    yield control("an activation that is not constant", frequency_at_most("sign not turned", ~flat, 0.15))


@claim(
    rows=("B12.19",),
    erratum="The step must go against the sign of f: up the gradient a positive output does not turn negative.",
)
def ascending_step_turns_the_sign(key, *, trials: Trials = 500, dim: Annotated[int, Range(50, 1000)] = 100):
    r"""There is a step up the gradient after which a random network has the other sign, with high probability.

    As printed in Theorem 78: there is $\eta>0$ with $\operatorname{sign}f(x)\ne\operatorname{sign}f(x+\eta\nabla f(x))$
    with probability $1-\gamma$. For $f(x)>0$, which is half of the cases, none of 40 steps does it; with
    $-\operatorname{sign}f(x)$ in front of the step, as in (12.9), it is right.
    """

    @jax.jit
    def measure(key):
        def one(key):
            network, x = _drawn(key, 100, dim, dim, jnp.tanh)
            found = one_step_flip(network, x[None])
            slope = jax.grad(network)(x)
            # up to 30 times as long as the step that is right
            sizes = found.distance[0] * jnp.geomspace(0.01, 30, 40) / jnp.linalg.norm(slope)
            ascending = jax.vmap(lambda s: network(x + s * slope))(sizes)
            return jnp.any(found.before[0] * ascending < 0), found.success[0], found.before[0] > 0

        return jax.lax.map(one, jax.random.split(key, trials), batch_size=10)

    up, down, positive = map(np.asarray, measure(key))
    yield printed(frequency_at_most("no ascending step turns the sign", ~up, 0.15))
    yield equal("ascending steps that turn a positive output", up[positive], 0.0)
    yield frequency_at_most("the step against the sign does not turn it", ~down, 0.15)


@claim(rows=("B12.22", "B12.23"))
def linear_sign_turns_exactly(key, *, models: Size = 200, dim: Size = 50):
    r"""For a linear function the step turns the sign exactly, and nothing shorter than half of it does.

    $f(x)=w\cdot x$ and $x_+=x-\eta f(x)\nabla f(x)$: $f(x_+)=f(x)(1-\eta\|w\|^2)$, which has the other sign if and only
    if $\eta>1/\|w\|^2$; with $\eta=2/\|w\|^2$, a step of the length $2|f|/\|w\|$, it is $-f(x)$. No perturbation
    shorter than $|f|/\|w\|$ changes the sign. For $w\sim N(0,I)$ and $\|x\|=\sqrt d$ that
    is in the mean $\Gamma(\frac d2)/(\sqrt\pi\,\Gamma(\frac{d+1}2))$ of the length of $x$, which falls as $d^{-1/2}$.
    With a function that has a cubic part the step does not end at $-f$.
    """
    dims = (20, 80, 320, 1280)

    @jax.jit
    def measure(key):
        w_key, x_key, v_key, d_key = jax.random.split(key, 4)
        w, x = jax.random.normal(w_key, (models, dim)), sphere_points(models, dim, key=x_key)
        found = jax.vmap(lambda w, x: one_step_flip(lambda z: w @ z, x[None]))(w, x)
        found = jax.tree.map(lambda a: a[:, 0], found)
        f, square = jnp.sum(w * x, 1), jnp.sum(w**2, 1)
        share = jnp.array([0.5, 0.99, 1.01, 3.0])  # of 1/‖w‖²
        moved = x[:, None] - (share / square[:, None] * f[:, None])[..., None] * w[:, None]
        # shorter steps: random directions and the worst one, along the gradient
        v = jax.random.normal(v_key, (20, dim))
        v = jnp.concatenate([v / jnp.linalg.norm(v, axis=1, keepdims=True), jnp.zeros((1, dim))])
        v = jnp.where((jnp.arange(21) == 20)[:, None], (-jnp.sign(f) / jnp.sqrt(square))[:, None, None] * w[:, None], v)
        near = jnp.einsum("md,mvd->mv", w, x[:, None] + 0.999 * (jnp.abs(f) / jnp.sqrt(square))[:, None, None] * v)
        bent = jax.vmap(lambda w, x: one_step_flip(lambda z: w @ z / dim**0.5 + (w @ z) ** 3 / dim, x[None]))(w, x)

        def relative(d):
            k1, k2 = jax.random.split(jax.random.fold_in(d_key, d))
            w, x = jax.random.normal(k1, (4000, d)), sphere_points(1, d, key=k2)[0]
            return jnp.abs(w @ x) / (jnp.linalg.norm(w, axis=1) * d**0.5)

        sizes = jnp.stack([relative(d) for d in dims], 1)
        outputs = jnp.einsum("md,msd->ms", w, moved) / f[:, None]
        return (
            found.before,
            found.after,
            found.distance,
            2 * jnp.abs(f) / jnp.sqrt(square),
            outputs,
            share,
            near,
            bent,
            sizes,
        )

    before, after, distance, length, outputs, share, near, bent, sizes = jax.tree.map(np.asarray, measure(key))
    # f is a sum of d products: an output near zero loses digits relative to itself
    scale = 1e-13 * dim
    yield equal("output after the step", after, -before, rtol=1e-9, atol=scale)
    yield equal("length of the step", distance, length)
    yield equal("output over that before, steps of four sizes", outputs, np.tile(1 - share, (models, 1)), atol=1e-9)
    yield at_least("output times its sign after 0.999 of the least step", near * np.sign(before)[:, None], 0.0)
    half = np.array(dims) / 2
    mean = np.exp(scipy.special.gammaln(half) - scipy.special.gammaln(half + 0.5)) / np.sqrt(np.pi)
    yield estimate("least step over the length of x", sizes, mean, wrong=1.1 * mean)
    # a mean of 4,000 ratios is known to 1.2 %, a slope over 1.8 decades to 0.005: ten times that with two degrees of
    # freedom, and seldom three times as much
    yield rate("mean least step over the length of x", dims, sizes.mean(0), -0.5, tolerance=0.15, along="d")
    yield control(
        "a linear function: here with a cubic part",
        equal("output after the step", bent.after, -bent.before, rtol=1e-9, atol=scale),
    )
