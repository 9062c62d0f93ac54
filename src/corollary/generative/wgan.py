r"""Wasserstein GANs: the discriminator is a critic of bounded slope, and his best verdict a distance of the laws.

```python
wgan = WGAN(generator, critic, latents=2)
run = train_wgan(wgan, x, optax.adam(1e-4, b1=0.5), steps=5000, penalty=10.0, batch_size=64, key=key)
```
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

from corollary._show import shown
from corollary._types import NetworkLike, Scalar
from corollary._validate import positive, real, whole
from corollary.catalog import implements
from corollary.generative._players import Sides, fight, number, require_networks, weighted
from corollary.generative.gan import Adversaries


@implements("M15.30")
class WGAN(eqx.Module):
    r"""$\min_G\sup_m\ \mathbb Em(x)-\mathbb Em(G(z))$ over critics $m$ of bounded slope.

    `generator(z)` makes an example of `latents` standard normal numbers, `critic(x)` returns one number. Over all
    critics of slope 1 the supremum is the Wasserstein distance; without a bound it is infinite, so that `train_wgan`
    asks for one.
    """

    generator: Any
    critic: Any
    latents: int = eqx.field(static=True)

    def __init__(self, generator: NetworkLike, critic: NetworkLike, *, latents: int = 1):
        require_networks(generator=generator, critic=critic)
        self.generator, self.critic, self.latents = generator, critic, whole("latents", latents)

    __repr__ = shown

    def sample(self, count: int, *, key: PRNGKeyArray) -> Float[Array, "_ ..."]:
        """Independent examples of the generator."""
        return jax.vmap(self.generator)(jax.random.normal(key, (whole("count", count), self.latents)))

    def value(
        self,
        x: Float[ArrayLike, "n ..."],
        z: Float[ArrayLike, "m _"],
        *,
        x_weights: Float[ArrayLike, "n"] | None = None,
        z_weights: Float[ArrayLike, "m"] | None = None,
    ) -> Float[Array, ""]:
        r"""$\mathbb Em(x)-\mathbb Em(G(z))$, at most the slope of the critic times the distance of the laws."""
        x, z = real("x", x), real("z", z, f"m {self.latents}")
        real_part = weighted(_scores(self.critic, x), x_weights, "x_weights")
        return real_part - weighted(_scores(self.critic, jax.vmap(self.generator)(z)), z_weights, "z_weights")


@implements("M15.33")
def clip_params(params: PyTree, most: Scalar) -> PyTree:
    r"""$\max(\min(\theta,c),-c)$ in every place of a pytree: the nearest point of $[-c,c]^p$.

    >>> clip_params([0.5, -3.0], 1.0)[1].item()
    -1.0
    """
    most = positive("most", real("most", most, ""))
    leaves = [real("params", leaf) for leaf in jax.tree.leaves(params)]
    if not leaves:
        raise ValueError("params must have at least one array.")
    ends = ([sign * most] * len(leaves) for sign in (-1, 1))
    clipped = optax.projections.projection_box(leaves, *ends)
    return jax.tree.unflatten(
        jax.tree.structure(params), [c.astype(a.dtype) for c, a in zip(clipped, leaves, strict=True)]
    )


@implements("M15.35")
def gradient_penalty(
    critic: NetworkLike,
    x: Float[ArrayLike, "n ..."],
    fake: Float[ArrayLike, "n ..."],
    share: Float[ArrayLike, "n"],
) -> Float[Array, ""]:
    r"""$\frac1n\sum_i(\|\nabla m(\hat x_i)\|-1)^2$ at $\hat x_i=s_ix_i+(1-s_i)y_i$, `share` of the way to $x_i$.

    >>> gradient_penalty(lambda x: 3 * x[0], [[1.0]], [[0.0]], [0.5]).item()
    4.0
    """
    require_networks(critic=critic)
    x, fake = real("x", x), real("fake", fake)
    if x.shape != fake.shape or x.ndim < 2 or x.size == 0:
        raise ValueError(f"x and fake must be as many examples of one shape, got {x.shape} and {fake.shape}.")
    share = real("share", share, "n", {"n": len(x)})
    return jnp.mean((critic_slopes(critic, _between(x, fake, share)) - 1) ** 2)


def critic_slopes(critic: NetworkLike, x: Float[ArrayLike, "n ..."]) -> Float[Array, "n"]:
    r"""$\|\nabla m(x)\|$ at each of the examples.

    >>> critic_slopes(lambda x: 3 * x[0] + 4 * x[1], [[1.0, 2.0]]).tolist()
    [5.0]
    """
    require_networks(critic=critic)
    by_x = jax.vmap(jax.grad(lambda one: number("critic", critic(one))))(real("x", x))
    squares = jnp.sum(by_x.reshape(len(by_x), -1) ** 2, -1)
    # the root has no derivative at 0, where a critic is flat; 0 is one of its subgradients
    return jnp.where(squares > 0, jnp.sqrt(jnp.where(squares > 0, squares, 1)), 0)


@implements("M15.32", "M15.33", "M15.35")
def train_wgan(
    wgan: WGAN,
    data: Float[ArrayLike, "n ..."],
    optimiser: optax.GradientTransformation,
    *,
    steps: int,
    key: PRNGKeyArray,
    clip: Scalar | None = None,
    penalty: Scalar | None = None,
    batch_size: int | None = None,
    critic_steps: int = 5,
    generator_optimiser: optax.GradientTransformation | None = None,
    measure: Callable | None = None,
    every: int = 1,
    checkpoint: str | Path | None = None,
) -> Adversaries:
    r"""Rounds of `critic_steps` steps of the critic up $\mathbb Em(x)-\mathbb Em(G(z))$, then one of the generator.

    There are `steps` rounds. One of two things bounds the slope of the critic. With `clip` all his parameters are cut
    back to $[-c,c]$ after each of his steps; with `penalty` $\lambda$ he pays $\lambda$ times the `gradient_penalty` at
    random places between real and generated examples. Batches, optimisers, `measure`, seeds and `checkpoint` as in
    `train_gan`.
    """
    if not isinstance(wgan, WGAN):
        raise TypeError(f"wgan must be a WGAN, got {type(wgan).__name__}.")
    if (clip is None) == (penalty is None):
        raise ValueError(
            "one of clip and penalty must be given, and not both: without a bound on the slope of the critic his "
            "verdict has no limit."
        )
    name, bound = ("clip", clip) if penalty is None else ("penalty", penalty)
    bound, clipping, latents = positive(name, real(name, bound, "")), penalty is None, wgan.latents

    def together(generator, critic):
        return WGAN(generator, critic, latents=latents)

    def judged(critic, x, fake, share, bound):
        found = jnp.mean(_scores(critic, fake)) - jnp.mean(_scores(critic, x))
        return found if clipping else found + bound * gradient_penalty(critic, x, fake, share)

    def praised(critic, generator, z):
        return -jnp.mean(_scores(critic, jax.vmap(generator)(z)))

    pair, losses, record = fight(
        wgan.generator,
        wgan.critic,
        Sides(judged, praised, clip_params if clipping else None, together, measure),
        data,
        {"optimiser": optimiser, "generator_optimiser": generator_optimiser or optimiser},
        steps=steps,
        key=key,
        batch_size=batch_size,
        updates=(whole("critic_steps", critic_steps), 1),
        latents=latents,
        every=every,
        checkpoint=checkpoint,
        arguments={"latents": latents, "critic_steps": critic_steps, "clip": clip, "penalty": penalty},
        bound=bound,
    )
    return Adversaries(together(*pair), *losses, record)


def _scores(critic, x):
    return jax.vmap(lambda one: number("critic", critic(one)))(x)


def _between(x, fake, share):
    share = share.reshape(-1, *(1,) * (x.ndim - 1))
    return share * x + (1 - share) * fake
