r"""Units and layers: the elementary maps that networks are composed of.

Every module is called on one example, a vector (n,); `jax.vmap` runs it over a batch. Weights have shape
(outputs, inputs), so that row $j$ holds the parameters of unit $j$.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._validate import one_of, real, whole
from corollary.catalog import implements
from corollary.nets.activations import heaviside, identity, sign
from corollary.nets.initialisations import uniform_fan_in

SCALINGS = ("standard", "ntk")


@implements("B02.03")
class LinearUnit(eqx.Module):
    r"""$g(x;\theta)=x^\top\theta$: changes at the rate $\|\theta\|$ in the direction $\theta/\|\theta\|$."""

    weight: jax.Array

    def __init__(self, inputs: int, *, key: PRNGKeyArray, initialisation: Callable = uniform_fan_in):
        self.weight = _draw(initialisation, key, 1, whole("inputs", inputs))[0]

    def __call__(self, x: Float[ArrayLike, "size"]) -> Array:
        return _vector(x, self.weight.shape[0]) @ self.weight


@implements("B02.03")
class AffineUnit(eqx.Module):
    r"""$g(x;\theta,b)=x^\top\theta+b$, the linear unit $(\theta,b)$ on the lengthened input $(x,1)$."""

    weight: jax.Array
    bias: jax.Array

    def __init__(
        self,
        inputs: int,
        *,
        key: PRNGKeyArray,
        initialisation: Callable = uniform_fan_in,
        bias_initialisation: Callable = uniform_fan_in,
    ):
        inputs = whole("inputs", inputs)
        weight_key, bias_key = jax.random.split(key)
        self.weight = _draw(initialisation, weight_key, 1, inputs)[0]
        self.bias = _draw(bias_initialisation, bias_key, 1, inputs)[0, 0]

    def __call__(self, x: Float[ArrayLike, "size"]) -> Array:
        return _vector(x, self.weight.shape[0]) @ self.weight + self.bias


@implements("B02.11")
class RidgeUnit(eqx.Module):
    r"""$f(x;\theta)=\phi(x^\top\theta)$, constant on the hyperplanes orthogonal to $\theta$."""

    weight: jax.Array
    activation: Callable = eqx.field(static=True)

    def __init__(
        self, inputs: int, activation: Callable, *, key: PRNGKeyArray, initialisation: Callable = uniform_fan_in
    ):
        self.weight = _draw(initialisation, key, 1, whole("inputs", inputs))[0]
        self.activation = _activation(activation)

    def __call__(self, x: Float[ArrayLike, "size"]) -> Array:
        return self.activation(_vector(x, self.weight.shape[0]) @ self.weight)


@implements("B02.12")
class ThresholdUnit(RidgeUnit):
    r"""$H(x^\top\theta)\in\{0,1\}$ or $\mathrm{sign}(x^\top\theta)\in\{-1,1\}$; both fire at 0: one is $2H-1$."""

    def __init__(
        self, inputs: int, kind: str = "heaviside", *, key: PRNGKeyArray, initialisation: Callable = uniform_fan_in
    ):
        steps = {"heaviside": heaviside, "sign": sign}
        super().__init__(inputs, steps[one_of("kind", kind, steps)], key=key, initialisation=initialisation)


@implements("B02.03", "B02.11", "E02.07", "M01.01", "T01.05")
class FullyConnected(eqx.Module):
    r"""$\phi(Wx+b)$ with $W\in\mathbb R^{m\times n}$, $b\in\mathbb R^m$ and an entrywise $\phi$.

    `activation=identity` is the affine layer, `bias=False` the linear or ridge layer $\phi(Wx)$. With
    `scaling="ntk"` the layer computes $\phi(n^{-1/2}Wx+b)$: to be used with `initialisation=standard_normal`.
    """

    weight: jax.Array
    bias: jax.Array | None
    activation: Callable = eqx.field(static=True)
    scaling: str = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        activation: Callable = identity,
        *,
        key: PRNGKeyArray,
        bias: bool = True,
        initialisation: Callable = uniform_fan_in,
        bias_initialisation: Callable = uniform_fan_in,
        scaling: str = "standard",
    ):
        inputs, outputs = whole("inputs", inputs), whole("outputs", outputs)
        weight_key, bias_key = jax.random.split(key)
        self.weight = _draw(initialisation, weight_key, outputs, inputs)
        self.bias = _draw(bias_initialisation, bias_key, outputs, inputs)[:, 0] if bias else None
        self.activation = _activation(activation)
        self.scaling = one_of("scaling", scaling, SCALINGS)

    @classmethod
    def of(
        cls,
        weight: Float[ArrayLike, "m n"],
        bias: Float[ArrayLike, "m"] | None = None,
        activation: Callable = identity,
        scaling: str = "standard",
    ) -> "FullyConnected":
        """The layer with these parameters: `weight` (m, n), and `bias` (m,) or None."""
        dims = {}
        weight = real("weight", weight, "m n", dims)
        bias = None if bias is None else real("bias", bias, "m", dims)
        blank = cls(dims["n"], dims["m"], activation, key=jax.random.key(0), bias=bias is not None, scaling=scaling)
        return eqx.tree_at(lambda l: (l.weight, l.bias), blank, (weight, bias), is_leaf=lambda leaf: leaf is None)

    @property
    def scale(self) -> float:
        return self.weight.shape[1] ** -0.5 if self.scaling == "ntk" else 1.0

    @property
    def matrix(self) -> Array:
        """The matrix that the layer multiplies by: its weight, scaled."""
        return self.scale * self.weight

    def preactivation(self, x: Float[ArrayLike, "size"]) -> Float[Array, "_"]:
        r"""$Wx+b$."""
        # x from the left: a batch then lies along the rows, which XLA multiplies without a transposed copy
        z = self.scale * (_vector(x, self.weight.shape[1]) @ self.weight.T)
        return z if self.bias is None else z + self.bias

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return self.activation(self.preactivation(x))


def _draw(initialisation, key, outputs, inputs):
    if not callable(initialisation):
        raise TypeError(f"initialisation must be a function (key, shape, dtype), got {initialisation!r}.")
    return initialisation(key, (outputs, inputs), jnp.result_type(float))


def _activation(activation):
    if not callable(activation):
        raise TypeError(f"activation must be a function of a number, got {activation!r}.")
    return activation


def _vector(x, size: int):
    return real("x", x, str(size), finite=False)
