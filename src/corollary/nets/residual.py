r"""Residual layers: the identity, or a projection, plus a correction that vanishes with its parameters."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._validate import whole
from corollary.catalog import implements
from corollary.nets.activations import relu
from corollary.nets.initialisations import uniform_fan_in
from corollary.nets.layers import FullyConnected


@implements("E02.15", "T01.05")
class ResidualLayer(eqx.Module):
    r"""$F[W,b](x)=x+(\phi(Wx+b)-\phi(0))$, the identity for $W=0$, $b=0$ whatever $\phi$ is.

    `branch_scale` multiplies the correction, for branches that are to be small in deep networks.
    """

    branch: FullyConnected
    branch_scale: float = eqx.field(static=True)

    def __init__(
        self,
        size: int,
        activation: Callable = relu,
        *,
        key: PRNGKeyArray,
        initialisation: Callable = uniform_fan_in,
        bias_initialisation: Callable = uniform_fan_in,
        branch_scale: float = 1.0,
    ):
        self.branch = FullyConnected(
            size,
            size,
            activation,
            key=key,
            initialisation=initialisation,
            bias_initialisation=bias_initialisation,
        )
        self.branch_scale = float(branch_scale)

    def __call__(self, x: Float[ArrayLike, "..."]) -> Array:
        return x + self.branch_scale * _correction(self.branch, x)


@implements("E02.17")
class ProjectedResidualLayer(eqx.Module):
    r"""$F[V,W,b](x)=Vx+(\phi(Wx+b)-\phi(0))$ with $V,W\in\mathbb R^{m\times n}$; $F[V,0,0]=V$."""

    projection: jax.Array
    branch: FullyConnected

    def __init__(
        self,
        inputs: int,
        outputs: int,
        activation: Callable = relu,
        *,
        key: PRNGKeyArray,
        initialisation: Callable = uniform_fan_in,
        bias_initialisation: Callable = uniform_fan_in,
        projection_initialisation: Callable = uniform_fan_in,
    ):
        inputs, outputs = whole("inputs", inputs), whole("outputs", outputs)
        projection_key, branch_key = jax.random.split(key)
        self.projection = projection_initialisation(projection_key, (outputs, inputs), jnp.result_type(float))
        self.branch = FullyConnected(
            inputs,
            outputs,
            activation,
            key=branch_key,
            initialisation=initialisation,
            bias_initialisation=bias_initialisation,
        )

    def __call__(self, x: Float[ArrayLike, "..."]) -> Array:
        return self.projection @ x + _correction(self.branch, x)


@implements("T01.05")
class ResidualBlock(eqx.Module):
    r"""$x\mapsto x+F(x)$ for any map $F$ that keeps the shape."""

    branch: Callable

    def __call__(self, x: Float[ArrayLike, "..."]) -> Array:
        out = self.branch(x)
        if out.shape != x.shape:
            raise ValueError(f"branch must keep the shape {x.shape}, it gives {out.shape}.")
        return x + out


def _correction(branch, x):
    out = branch(x)
    return out - branch.activation(jnp.zeros_like(out))
