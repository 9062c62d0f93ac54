"""Activation functions, with the derivatives that PyTorch gives them at their kinks."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from corollary.network._aten.table import aten


@aten("relu")
def relu(self):
    return jnp.where(self <= 0, 0, self)


@aten("hardtanh", "relu6")
def hardtanh(self, min_val=0, max_val=6):
    """At a bound itself the derivative is 0. (PyTorch's `relu6` has no arguments, its bounds are the defaults here.)"""
    return jnp.where(self <= min_val, min_val, jnp.where(self >= max_val, max_val, self))


@aten("hardsigmoid")
def hardsigmoid(self):
    return hardtanh(self, -3, 3) / 6 + 0.5


@aten("hardswish")
def hardswish(self):
    return jnp.where(self <= -3, 0, jnp.where(self >= 3, self, self * (self + 3) / 6))


@aten("leaky_relu")
def leaky_relu(self, negative_slope=0.01):
    return jnp.where(self > 0, self, self * negative_slope)


@aten("rrelu")
def rrelu(self, lower=1 / 8, upper=1 / 3):
    return leaky_relu(self, (lower + upper) / 2)


@aten("prelu", "_prelu_kernel")
def prelu(self, weight):
    if weight.size > 1 and weight.ndim == 1:  # one slope per channel
        weight = weight.reshape(-1, *(1,) * (self.ndim - 2))
    return jnp.where(self > 0, self, self * weight)


@aten("threshold")
def threshold(self, threshold, value):
    return jnp.where(self <= threshold, value, self)


@aten("hardshrink")
def hardshrink(self, lambd=0.5):
    return jnp.where(jnp.abs(self) <= lambd, 0, self)


@aten("softshrink")
def softshrink(self, lambd=0.5):
    return jnp.where(self > lambd, self - lambd, jnp.where(self < -lambd, self + lambd, 0))


@aten("elu")
def elu(self, alpha=1, scale=1, input_scale=1):
    negative = jnp.where(self > 0, 0, self)  # nothing overflows where it does not count
    return jnp.where(self > 0, scale * self, alpha * scale * jnp.expm1(negative * input_scale))


@aten("selu")
def selu(self):
    return elu(self, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


@aten("celu")
def celu(self, alpha=1.0):
    return elu(self, alpha, 1, 1 / alpha)


@aten("gelu")
def gelu(self, approximate="none"):
    if approximate == "tanh":
        return jax.nn.gelu(self, approximate=True)
    return 0.5 * self * (1 + jax.scipy.special.erf(self * math.sqrt(0.5)))


@aten("sigmoid")
def sigmoid(self):
    return jax.nn.sigmoid(self if jnp.issubdtype(self.dtype, jnp.floating) else self.astype(float))


@aten("logit")
def logit(self):
    return jax.scipy.special.logit(self)


@aten("log_sigmoid")
def log_sigmoid(self):
    return jax.nn.log_sigmoid(self)


@aten("silu")
def silu(self):
    return self * jax.nn.sigmoid(self)


@aten("mish")
def mish(self):
    return self * jnp.tanh(jax.nn.softplus(self))


@aten("softplus")
def softplus(self, beta=1, threshold=20):
    linear = self * beta > threshold
    return jnp.where(linear, self, jax.nn.softplus(jnp.where(linear, 0, self * beta)) / beta)


@aten("glu")
def glu(self, dim=-1):
    values, gates = jnp.split(self, 2, axis=dim)
    return values * jax.nn.sigmoid(gates)


@aten("softmax")
def softmax(self, dim, dtype=None):
    return jax.nn.softmax(self if dtype is None else self.astype(dtype), axis=dim)


@aten("log_softmax")
def log_softmax(self, dim, dtype=None):
    return jax.nn.log_softmax(self if dtype is None else self.astype(dtype), axis=dim)


@aten("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
def dropout(input, p, train):
    if train and p:
        raise ValueError("the module drops entries at random in inference mode: take dropout(..., training=True) out.")
    return input
