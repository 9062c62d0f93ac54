r"""The two cheats: a network that recites its examples, and one that knows a sample by heart."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import concrete, positive, real, whole, within
from corollary.catalog import implements
from corollary.generative._distances import nearest, table, tables


@implements("T16.15")
class MemorisingGenerator(eqx.Module):
    r"""A ReLU network that makes of a seed $u\in[0,1]$ one of $m$ examples, each from an interval of length $1/m$.

    $g(u,z)=x_1+\sum_{i<m}(x_{i+1}-x_i)s_i(u)+\sigma z$, steps $s_i(u)=1-\mathrm{ReLU}(1-\mathrm{ReLU}(\frac{u-i/m}w))$
    and $\sigma z=\sigma\,\mathrm{ReLU}(z)-\sigma\,\mathrm{ReLU}(-z)$. Only seeds within a step, a share of `width`
    $=(m-1)w$ of all, give something between two examples.
    """

    places: jax.Array
    slope: jax.Array
    rises: jax.Array
    first: jax.Array
    noise: jax.Array
    shape: tuple[int, ...] = eqx.field(static=True)

    __repr__ = shown

    @property
    def parameters(self) -> int:
        r"""The weights and biases that are not zero: $m-1$ units in each of two layers, $d$ outputs, $2d$ for noise.

        Each step has two weights and two biases inside and $d$ weights to the outputs; the outputs have $d$ biases; and
        each of the $2d$ units of the noise has a weight on either side: $(m-1)(d+4)+5d$.
        """
        return self.places.size * (self.first.size + 4) + 5 * self.first.size

    def __call__(self, u: Float[ArrayLike, ""], z: Float[ArrayLike, "d"]) -> Float[Array, "..."]:
        """The example of the seed `u`, with the noise `z` of as many numbers as an example."""
        u, z = real("u", u, ""), real("z", z, "d", {"d": self.first.size})
        steps = 1 - jax.nn.relu(1 - jax.nn.relu(self.slope * (u - self.places)))
        noise = self.noise * jax.nn.relu(z) - self.noise * jax.nn.relu(-z)
        return (self.first + steps @ self.rises + noise).reshape(self.shape)

    def sample(self, count: int, *, key: PRNGKeyArray) -> Float[Array, "_ ..."]:
        """Examples of `count` random seeds."""
        u_key, z_key = jax.random.split(key)
        count, d = whole("count", count), self.first.size
        u = jax.random.uniform(u_key, (count,), self.first.dtype)
        return _recited(self, u, jax.random.normal(z_key, (count, d), self.first.dtype))


@eqx.filter_jit
def _recited(generator, u, z):
    """A few at a time: the steps of all of them would be as many numbers as there are pairs."""
    return lax.map(lambda given: generator(*given), (u, z), batch_size=min(64, len(u)))


@implements("T16.15")
def memorising_generator(
    examples: Float[ArrayLike, "m ..."], *, width: Scalar = 1e-3, noise: Scalar = 0.0
) -> MemorisingGenerator:
    r"""The network that recites `examples`: equally often, up to a share `width` of seeds that lie between two.

    `noise` is the standard deviation of what is added to every number. It has some $md$ parameters.

    >>> recite = memorising_generator(x)
    >>> bool(jnp.allclose(recite(0.3, jnp.zeros(3)), x[1]))
    True
    """
    rows = table("examples", examples)
    width = within("width", real("width", width, ""), 0.0, 1.0, open="both").astype(rows.dtype)
    noise = within("noise", real("noise", noise, ""), 0.0).astype(rows.dtype)
    m = len(rows)
    # a step begins at its place, so that seeds below it give the example before
    places = jnp.arange(1, m, dtype=rows.dtype) / m
    return MemorisingGenerator(
        places, max(m - 1, 1) / width, jnp.diff(rows, axis=0), rows[0], noise, jnp.shape(examples)[1:]
    )


@implements("T16.12")
class MemorisingDiscriminator(eqx.Module):
    r"""$D(x)=\max_i\mathrm{ReLU}(1-\|x-x_i\|^2/\tau)$: one unit for each known example, 1 there and 0 elsewhere."""

    known: jax.Array
    tau: jax.Array

    __repr__ = shown

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, ""]:
        """Between 0 and 1 for one example."""
        x = real("x", x)
        if x.size != self.known.shape[1]:
            raise ValueError(f"x must be one example of {self.known.shape[1]} numbers, got shape {x.shape}.")
        return jnp.max(jax.nn.relu(1 - jnp.sum((x.ravel() - self.known) ** 2, -1) / self.tau))


@implements("T16.12")
def memorising_discriminator(
    x: Float[ArrayLike, "n ..."], y: Float[ArrayLike, "m ..."], *, tau: Scalar | None = None
) -> MemorisingDiscriminator:
    r"""The discriminator that is 1 on all of `x` and 0 on all of `y`, for any two samples without a common example.

    $\tau$ is half of the least squared distance between the two unless it is given.
    """
    x, y = tables(x=x, y=y)
    if tau is not None:
        return MemorisingDiscriminator(x, positive("tau", real("tau", tau, "")).astype(x.dtype))
    least = jnp.min(nearest(y, x)[0]) ** 2
    if concrete(least) and not np.asarray(least) > 0:
        raise ValueError("x and y must have no example in common: no function is 1 and 0 at the same place.")
    return MemorisingDiscriminator(x, least / 2)


@implements("T16.13")
def discriminator_samples(
    dim: int, epsilon: Scalar, *, lipschitz: Scalar = 1.0, radius: Scalar = 1.0, delta: Scalar = 0.05
) -> Float[Array, ""]:
    r"""So many samples that all discriminators of a class do on them as on the law, up to `epsilon`.

    $D_\theta(x)\in[0,1]$ is $C$-Lipschitz in $\theta\in\mathbb R^d$ with $\|\theta\|\le L$ (`lipschitz` and `radius`).
    Balls of radius $\frac\epsilon{4C}$ around $(1+\frac{8CL}\epsilon)^d$ parameters cover the class; on each of them
    Hoeffding's inequality for $\frac\epsilon2$: $N=\frac2{\epsilon^2}(d\ln(1+\frac{8CL}\epsilon)+\ln\frac2\delta)$.
    """
    dim = whole("dim", dim)
    epsilon = within("epsilon", real("epsilon", epsilon, ""), 0.0, 1.0, open="both")
    delta = within("delta", real("delta", delta, ""), 0.0, 1.0, open="both")
    lipschitz = positive("lipschitz", real("lipschitz", lipschitz, ""))
    radius = positive("radius", real("radius", radius, ""))
    cover = dim * jnp.log1p(8 * lipschitz * radius / epsilon)
    return 2 / epsilon**2 * (cover + jnp.log(2 / delta))
