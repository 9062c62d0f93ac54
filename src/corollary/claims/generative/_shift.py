"""Adversarial networks small enough for exact expectations: normal laws that are shifted, and tables."""

import equinox as eqx
import jax
import jax.numpy as jnp

from corollary.foundations import normal_rule
from corollary.generative import GAN

NODES, WEIGHTS = normal_rule(101, jnp.float64)


class Shift(eqx.Module):
    """The generator that adds a number to its seed, which may be scaled."""

    theta: jax.Array
    scale: float = eqx.field(static=True, default=1.0)

    def __call__(self, z):
        return self.scale * z + self.theta


class Affine(eqx.Module):
    """The generator of all normal laws, with a mean and the logarithm of a deviation."""

    theta: jax.Array
    spread: jax.Array

    def __call__(self, z):
        return jnp.exp(self.spread) * z + self.theta


class Line(eqx.Module):
    """The critic, or the logit, w x + b of the first number of an example."""

    w: jax.Array
    b: jax.Array

    def __call__(self, x):
        return self.w * x[0] + self.b


class Parabola(eqx.Module):
    """The logit c x² + w x + b."""

    c: jax.Array
    w: jax.Array
    b: jax.Array

    def __call__(self, x):
        return self.c * x[0] ** 2 + self.w * x[0] + self.b


class Table(eqx.Module):
    """A logit for each of finitely many examples, which are the unit vectors."""

    logits: jax.Array

    def __call__(self, x):
        return self.logits @ x


def exact_loss(discriminator, generator, a):
    """The loss of the discriminator for real data of the law N(a, 1), without sampling."""
    z = NODES[:, None]
    return GAN(generator, discriminator).discriminator_loss(z + a, z, x_weights=WEIGHTS, z_weights=WEIGHTS)


def on_tables(logits, p, q, f="log"):
    """The value of a table of logits where real examples have the law p and generated ones the law q."""
    outcomes = jnp.eye(len(p))
    gan = GAN(lambda z: z, Table(logits), f, latents=len(p))
    return gan.value(outcomes, outcomes, x_weights=p, z_weights=q)


def newton(objective, start, steps=40):
    """The minimum of a convex function of a vector. From 0 on losses of logits it never goes too far."""

    def step(_, theta):
        return theta - jnp.linalg.solve(jax.hessian(objective)(theta), jax.grad(objective)(theta))

    return jax.lax.fori_loop(0, steps, step, start)
