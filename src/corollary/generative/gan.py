r"""Generative adversarial networks: a generator, the discriminator that it has to fool, and how they are trained.

```python
gan = GAN(generator, discriminator, latents=2)
run = train_gan(gan, x, optax.adam(1e-3), steps=5000, batch_size=128, key=key)
run.gan.sample(100, key=key)
```
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

from corollary._show import shown
from corollary._types import NetworkLike
from corollary._validate import one_of, real, whole, within
from corollary.catalog import implements
from corollary.foundations import kl, total_variation
from corollary.generative._players import Sides, fight, number, require_networks, weighted
from corollary.network._code import by_code
from corollary.network.parts import split

MEASURING = ("log", "identity")


@implements("M15.21", "T16.06")
class GAN(eqx.Module):
    r"""$\min_G\max_D\ \mathbb E_{real}f(D(x))+\mathbb E_zf(1-D(G(z)))$ with an increasing measuring function $f$.

    `generator(z)` makes an example of `latents` standard normal numbers. `discriminator(x)` returns one number, the
    logit of $D$: $D(x)=1/(1+e^{-b(x)})$, so that nothing overflows where it is sure. `f` is `"log"`, `"identity"` or a
    function of a probability. Methods take examples `x` and seeds `z` along a first axis, and the weights of a rule of
    quadrature in the place of equal ones.
    """

    generator: Any
    discriminator: Any
    f: Any = eqx.field(static=True)
    latents: int = eqx.field(static=True)

    def __init__(
        self, generator: NetworkLike, discriminator: NetworkLike, f: str | Callable = "log", *, latents: int = 1
    ):
        require_networks(generator=generator, discriminator=discriminator)
        self.generator, self.discriminator = generator, discriminator
        self.f, self.latents = by_code(f) if callable(f) else one_of("f", f, MEASURING), whole("latents", latents)

    __repr__ = shown

    def logit(self, x: Float[ArrayLike, "..."]) -> Float[Array, ""]:
        r"""$b(x)=\ln\frac{D(x)}{1-D(x)}$ of one example."""
        return number("discriminator", self.discriminator(x))

    def probability(self, x: Float[ArrayLike, "..."]) -> Float[Array, ""]:
        r"""$D(x)$, the probability with which the discriminator takes one example for real."""
        return jax.nn.sigmoid(self.logit(x))

    def sample(self, count: int, *, key: PRNGKeyArray) -> Float[Array, "_ ..."]:
        """Independent examples of the generator."""
        return jax.vmap(self.generator)(jax.random.normal(key, (whole("count", count), self.latents)))

    @implements("M15.19", "M15.22", "M15.41")
    def discriminator_loss(
        self,
        x: Float[ArrayLike, "n ..."],
        z: Float[ArrayLike, "m _"],
        *,
        x_weights: Float[ArrayLike, "n"] | None = None,
        z_weights: Float[ArrayLike, "m"] | None = None,
    ) -> Float[Array, ""]:
        r"""$-\mathbb Ef(D(x))-\mathbb Ef(1-D(G(z)))$: what the discriminator lowers.

        With $f=\ln$ it is $\mathbb E\ln(1+e^{-b(x)})+\mathbb E\ln(1+e^{b(G(z))})$, twice the cross entropy of real
        against generated if there are as many of both.
        """
        return _judged(self.discriminator, self.f, self._all(x), self._fake(z), x_weights, z_weights)

    def value(
        self,
        x: Float[ArrayLike, "n ..."],
        z: Float[ArrayLike, "m _"],
        *,
        x_weights: Float[ArrayLike, "n"] | None = None,
        z_weights: Float[ArrayLike, "m"] | None = None,
    ) -> Float[Array, ""]:
        r"""$\mathbb Ef(D(x))+\mathbb Ef(1-D(G(z)))$: what the discriminator raises and the generator lowers."""
        return -self.discriminator_loss(x, z, x_weights=x_weights, z_weights=z_weights)

    @implements("M15.26")
    def generator_loss(
        self,
        z: Float[ArrayLike, "m _"],
        *,
        saturating: bool = False,
        z_weights: Float[ArrayLike, "m"] | None = None,
    ) -> Float[Array, ""]:
        r"""What the generator lowers: $-\mathbb Ef(D(G(z)))$, or $\mathbb Ef(1-D(G(z)))$ if `saturating`.

        The second is its part of the game. With $f=\ln$ its slope vanishes where the discriminator is sure, at the
        beginning of training; that of the first does not.
        """
        return _fooled(self.discriminator, self.f, self._fake(z), saturating, z_weights)

    @implements("M15.24", "M15.40")
    def discriminator_gradient(
        self,
        x: Float[ArrayLike, "n ..."],
        z: Float[ArrayLike, "m _"],
        *,
        x_weights: Float[ArrayLike, "n"] | None = None,
        z_weights: Float[ArrayLike, "m"] | None = None,
    ) -> PyTree:
        r"""$-\mathbb E[f'(D(x))\,\partial D(x)]+\mathbb E[f'(1-D(G(z)))\,\partial D(G(z))]$, example by example.

        The gradient of `discriminator_loss` by the parameters of the discriminator, from the slopes of $D$ alone.
        """
        parts, slope = split(self.discriminator, inference=False), jax.grad(_function(self.f))

        def by_params(x, weight):
            probability = lambda params: jax.nn.sigmoid(number("discriminator", parts.join(params)(x)))  # noqa: E731
            d, partial = jax.value_and_grad(probability)(parts.params)
            return jax.tree.map(lambda g: weight(d) * g, partial)

        real_part = jax.vmap(lambda x: by_params(x, slope))(self._all(x))
        fake_part = jax.vmap(lambda x: by_params(x, lambda d: slope(1 - d)))(self._fake(z))
        means = _means(real_part, x_weights, "x_weights"), _means(fake_part, z_weights, "z_weights")
        return jax.tree.map(lambda real, fake: fake - real, *means)

    @implements("M15.24", "T16.08")
    def generator_gradient(
        self,
        z: Float[ArrayLike, "m _"],
        *,
        saturating: bool = False,
        z_weights: Float[ArrayLike, "m"] | None = None,
    ) -> PyTree:
        r"""$-\mathbb E[w\,\frac{\partial D}{\partial x}\frac{\partial G}{\partial\theta}]$, $w$ the `sample_weight`.

        The gradient of `generator_loss` by the parameters of the generator, from the slopes of $D$ and $G$ alone.
        """
        parts = split(self.generator, inference=False)

        def by_params(z):
            made, back = jax.vjp(lambda params: parts.join(params)(z), parts.params)
            d, partial = jax.value_and_grad(self.probability)(made)
            return back(-sample_weight(self.f, d, saturating=saturating) * partial)[0]

        return _means(jax.vmap(by_params)(self._seeds(z)), z_weights, "z_weights")

    def _seeds(self, z):
        return real("z", z, f"m {self.latents}")

    def _fake(self, z):
        return jax.vmap(self.generator)(self._seeds(z))

    def _all(self, x):
        x = real("x", x)
        if x.ndim < 2 or x.size == 0:
            raise ValueError(f"x must have examples along the first axis, shape (n, ...), got {x.shape}.")
        return x


@implements("T16.08")
def sample_weight(f: str | Callable, d: Float[ArrayLike, "..."], *, saturating: bool = False) -> Float[Array, "..."]:
    r"""How much a generated example counts in the gradient of the generator: $f'(D)$, or $f'(1-D)$ if `saturating`.

    `d` is the probability $D$ of the discriminator, `f` is `"log"`, `"identity"` or a function of one number.

    >>> sample_weight("log", [0.25, 0.5]).tolist(), sample_weight("log", 0.75, saturating=True).item()
    ([4.0, 2.0], 4.0)
    """
    d = within("d", real("d", d), 0.0, 1.0)
    f = f if callable(f) else one_of("f", f, MEASURING)
    slope = jnp.vectorize(jax.grad(_function(f)))
    return slope(1 - d if saturating else d)


@implements("M15.20", "T16.10")
def optimal_discriminator(p: Float[ArrayLike, "..."], q: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\frac p{p+q}$, the best discriminator for $f=\ln$ where the real density is $p$ and the generated one $q$.

    One half where both are 0, where nothing depends on it.

    >>> optimal_discriminator([0.3, 0.0], [0.1, 0.0]).tolist()
    [0.75, 0.5]
    """
    p, q = (within(name, real(name, a), 0.0) for name, a in (("p", p), ("q", q)))
    both = p + q
    return jnp.where(both > 0, p / jnp.where(both > 0, both, 1), 0.5)


@implements("M15.20", "T16.10", "T16.06")
def optimal_value(p: Float[ArrayLike, "... J"], q: Float[ArrayLike, "... J"], f: str = "log") -> Float[Array, "..."]:
    r"""$\max_D\sum_ip_if(D_i)+q_if(1-D_i)$ over all $D\in[0,1]^J$, for two laws on as many outcomes.

    For $f=\ln$ it is $\mathrm{KL}(p|\frac{p+q}2)+\mathrm{KL}(q|\frac{p+q}2)-2\ln2$, at least $-\ln4$ and 0 where the
    laws have no outcome in common; for the identity 1 and the total variation.

    >>> optimal_value([0.5, 0.5, 0.0], [0.0, 0.5, 0.5], "identity").item()
    1.5
    """
    one_of("f", f, MEASURING)
    apart = total_variation(p, q)
    if f == "identity":
        return 1 + apart
    p, q = jnp.asarray(p), jnp.asarray(q)
    return kl(p, (p + q) / 2) + kl(q, (p + q) / 2) - 2 * jnp.log(2.0)


class Adversaries(NamedTuple):
    """What training against each other returns.

    `gan` has both networks as they are at the end. `losses` and `generator_losses` are the losses of the judge and of
    the generator, of each round the last one on its batch and before its update; `record` is what `measure` returned
    before the first and after every `every` rounds, along a first axis (None without).
    """

    gan: Any
    losses: jax.Array
    generator_losses: jax.Array
    record: Any

    __repr__ = shown


@implements("M15.23", "T16.07", "M15.26")
def train_gan(
    gan: GAN,
    data: Float[ArrayLike, "n ..."],
    optimiser: optax.GradientTransformation,
    *,
    steps: int,
    key: PRNGKeyArray,
    batch_size: int | None = None,
    saturating: bool = False,
    discriminator_steps: int = 1,
    generator_steps: int = 1,
    generator_optimiser: optax.GradientTransformation | None = None,
    measure: Callable | None = None,
    every: int = 1,
    checkpoint: str | Path | None = None,
) -> Adversaries:
    r"""`steps` rounds of `discriminator_steps` steps of the discriminator, then `generator_steps` of the generator.

    Each step takes `batch_size` fresh seeds and, that of the discriminator, as many examples of `data`, drawn with
    replacement; without a `batch_size` all of them. The discriminator lowers `discriminator_loss`, the generator
    `generator_loss`, by `optimiser` and `generator_optimiser`, which are the same if only one is given.
    `measure(gan)` is recorded before the first and after every `every` rounds.

    One compiled program and a pure function of the key: `jax.vmap` over keys trains one pair for each, and so does
    `equinox.filter_vmap`, which also returns networks that hold functions. With a `checkpoint` the run is one program
    per `every` rounds, kept in that file after each: called again with the same arguments, or with more `steps`, it
    goes on from there and ends with the same bits; a file of another run is refused by the names of what differs.
    """
    if not isinstance(gan, GAN):
        raise TypeError(f"gan must be a GAN, got {type(gan).__name__}.")
    f, latents, saturating = gan.f, gan.latents, bool(saturating)
    updates = whole("discriminator_steps", discriminator_steps), whole("generator_steps", generator_steps)

    def together(generator, discriminator):
        return GAN(generator, discriminator, f, latents=latents)

    def judged(discriminator, x, fake, share, bound):
        return _judged(discriminator, f, x, fake)

    def fooled(discriminator, generator, z):
        return _fooled(discriminator, f, jax.vmap(generator)(z), saturating)

    pair, losses, record = fight(
        gan.generator,
        gan.discriminator,
        Sides(judged, fooled, None, together, measure),
        data,
        {"optimiser": optimiser, "generator_optimiser": generator_optimiser or optimiser},
        steps=steps,
        key=key,
        batch_size=batch_size,
        updates=updates,
        latents=latents,
        every=every,
        checkpoint=checkpoint,
        arguments={
            "f": f,
            "latents": latents,
            "saturating": saturating,
            "discriminator_steps": updates[0],
            "generator_steps": updates[1],
        },
    )
    return Adversaries(together(*pair), *losses, record)


def _logits(discriminator, x):
    return jax.vmap(lambda one: number("discriminator", discriminator(one)))(x)


def _judged(discriminator, f, x, fake, x_weights=None, z_weights=None):
    """The loss of the discriminator on real examples and generated ones."""
    measured = _of_logits(f)
    real_part = weighted(measured(_logits(discriminator, x)), x_weights, "x_weights")
    return -real_part - weighted(measured(-_logits(discriminator, fake)), z_weights, "z_weights")


def _fooled(discriminator, f, fake, saturating, z_weights=None):
    """The loss of the generator of these examples."""
    measured, logits = _of_logits(f), _logits(discriminator, fake)
    return weighted(measured(-logits) if saturating else -measured(logits), z_weights, "z_weights")


def _function(f):
    return f if callable(f) else {"log": jnp.log, "identity": lambda d: d}[f]


def _of_logits(f):
    """`f` of a probability, as a function of its logit; that of one minus the probability is at minus the logit."""
    if callable(f):
        return lambda b: f(jax.nn.sigmoid(b))
    return {"log": jax.nn.log_sigmoid, "identity": jax.nn.sigmoid}[f]


def _means(tree, weights, name):
    return jax.tree.map(lambda g: weighted(g.reshape(g.shape[0], -1), weights, name).reshape(g.shape[1:]), tree)
