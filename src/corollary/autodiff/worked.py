r"""The networks that the texts differentiate by hand, with every intermediate quantity under its name.

One neuron, two networks with two inputs, two hidden units and one output, the shallow sigmoid network, chains of
scalar layers. All formulas are written out; nothing calls automatic differentiation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import positive, real, whole
from corollary.autodiff.activations import activation_pair
from corollary.autodiff.elementary import sigmoid
from corollary.catalog import implements


class OneNeuron(NamedTuple):
    """Forward quantities of one neuron, then its sensitivities from the loss backwards."""

    pre: jax.Array
    activation: jax.Array
    output: jax.Array
    loss: jax.Array
    by_output: jax.Array
    by_c: jax.Array
    by_activation: jax.Array
    delta: jax.Array
    by_w: jax.Array

    __repr__ = shown


@implements("M06.03")
def one_neuron(
    x: Float[ArrayLike, "d"], y: Scalar, c: Scalar, w: Float[ArrayLike, "d"], activation: str = "logistic"
) -> OneNeuron:
    r"""$\Lambda=\frac12(y-c\,\sigma(w\cdot x))^2$ forwards and backwards.

    $\sigma$ and $\sigma'$ are evaluated once each: what the forward pass found, the backward pass uses again.
    """
    dims: dict = {}
    x, w = real("x", x, "d", dims), real("w", w, "d", dims)
    y, c = real("y", y, ""), real("c", c, "")
    value, slope = activation_pair(activation)
    pre = w @ x
    activated = value(pre)
    output = c * activated
    by_output = -(y - output)
    by_activation = by_output * c
    delta = by_activation * slope(pre)
    loss = (y - output) ** 2 / 2
    return OneNeuron(pre, activated, output, loss, by_output, by_output * activated, by_activation, delta, delta * x)


@implements("M06.04")
class TwoLayer221(eqx.Module):
    r"""$m=\sigma((W^2)^\top\sigma((W^1)^\top x+B^1)+B^2)$ with two inputs, two hidden units and one output."""

    w1: jax.Array  # w1[i, j] from input i to hidden unit j
    b1: jax.Array
    w2: jax.Array  # w2[j] from hidden unit j
    b2: jax.Array
    activation: str = eqx.field(static=True)

    def __init__(self, activation: str = "logistic", *, key: PRNGKeyArray):
        activation_pair(activation)
        k1, k2, k3, k4 = jax.random.split(key, 4)
        self.w1, self.b1 = jax.random.normal(k1, (2, 2)), jax.random.normal(k2, (2,))
        self.w2, self.b2 = jax.random.normal(k3, (2,)), jax.random.normal(k4, ())
        self.activation = activation

    def __call__(self, x: Float[ArrayLike, "2"]) -> Float[Array, ""]:
        value, _ = activation_pair(self.activation)
        return value(self.w2 @ value(self.w1.T @ real("x", x, "2") + self.b1) + self.b2)

    def backprop(self, x: Float[ArrayLike, "2"], y: Scalar) -> "TwoLayer221":
        r"""The gradient of $\frac12(y-m)^2$, entry by entry, in the form of the network itself."""
        x, y = real("x", x, "2"), real("y", y, "")
        value, slope = activation_pair(self.activation)
        z11 = self.w1[0, 0] * x[0] + self.w1[1, 0] * x[1] + self.b1[0]
        z12 = self.w1[0, 1] * x[0] + self.w1[1, 1] * x[1] + self.b1[1]
        h1, h2 = value(z11), value(z12)
        z21 = self.w2[0] * h1 + self.w2[1] * h2 + self.b2
        delta21 = -(y - value(z21)) * slope(z21)
        delta11 = delta21 * self.w2[0] * slope(z11)
        delta12 = delta21 * self.w2[1] * slope(z12)
        w1 = jnp.array([[delta11 * x[0], delta12 * x[0]], [delta11 * x[1], delta12 * x[1]]])
        parts = (w1, jnp.array([delta11, delta12]), jnp.array([delta21 * h1, delta21 * h2]), delta21)
        return eqx.tree_at(lambda net: (net.w1, net.b1, net.w2, net.b2), self, parts)

    def step(self, x: Float[ArrayLike, "2"], y: Scalar, step: Scalar) -> "TwoLayer221":
        r"""One step of stochastic gradient descent on the example $(x,y)$."""
        step = positive("step", real("step", step, ""))
        return jax.tree.map(lambda p, g: p - step * g, self, self.backprop(x, y))


class Backprop221(NamedTuple):
    """Every quantity of Figures 2.7 and 2.8: values on the way up, derivatives of the loss on the way down."""

    net_hidden: jax.Array
    hidden: jax.Array
    net_output: jax.Array
    output: jax.Array
    loss: jax.Array
    by_output: jax.Array
    by_hidden: jax.Array
    by_w: jax.Array
    by_v: jax.Array

    __repr__ = shown


@implements("B02.20")
def backprop_221(
    w: Float[ArrayLike, "2 2"], v: Float[ArrayLike, "2"], x: Float[ArrayLike, "2"], y: Scalar
) -> Backprop221:
    r"""The 2-2-1 sigmoid network without biases, $L=\frac12(y-\hat y)^2$.

    `w[i, j]` leads from input i to hidden unit j, `v[j]` (printed $w_{3j}$) from hidden unit j to the output.
    """
    w, v, x, y = real("w", w, "2 2"), real("v", v, "2"), real("x", x, "2"), real("y", y, "")
    net_hidden = jnp.array([w[0, 0] * x[0] + w[1, 0] * x[1], w[0, 1] * x[0] + w[1, 1] * x[1]])
    hidden = sigmoid(net_hidden)
    net_output = v[0] * hidden[0] + v[1] * hidden[1]
    output = sigmoid(net_output)
    by_output = output - y
    by_net = by_output * output * (1 - output)
    by_hidden = by_net * v
    by_net_hidden = by_hidden * hidden * (1 - hidden)
    by_w = jnp.array(
        [[by_net_hidden[0] * x[0], by_net_hidden[1] * x[0]], [by_net_hidden[0] * x[1], by_net_hidden[1] * x[1]]]
    )
    loss = (y - output) ** 2 / 2
    return Backprop221(net_hidden, hidden, net_output, output, loss, by_output, by_hidden, by_w, by_net * hidden)


class WorkedMLP(eqx.Module):
    r"""$f(x)=\sum_{j=1}^m\beta_j\,\sigma(w_j\cdot x)$ with logistic $\sigma$, and without biases."""

    beta: jax.Array
    w: jax.Array

    def __init__(self, inputs: int, units: int, *, key: PRNGKeyArray):
        beta_key, w_key = jax.random.split(key)
        self.beta = jax.random.normal(beta_key, (whole("units", units),)) / jnp.sqrt(units)
        self.w = jax.random.normal(w_key, (units, whole("inputs", inputs)))

    def __call__(self, x: Float[ArrayLike, "_"]) -> Float[Array, ""]:
        return self.beta @ sigmoid(self.w @ real("x", x, f"{self.w.shape[1]}"))


@implements("B02.18")
def mlp_gradient(network: WorkedMLP, x: Float[ArrayLike, "_"], y: Scalar) -> WorkedMLP:
    r"""The gradient of $\frac12(f(x)-y)^2$ in closed form, in the form of the network."""
    x, y = real("x", x, f"{network.w.shape[1]}"), real("y", y, "")
    pre = network.w @ x
    error = network.beta @ sigmoid(pre) - y
    by_w = error * jnp.outer(network.beta * sigmoid(pre) * sigmoid(-pre), x)
    return eqx.tree_at(lambda m: (m.beta, m.w), network, (error * sigmoid(pre), by_w))


@implements("B02.19")
def sgd_step(network: WorkedMLP, x: Float[ArrayLike, "_"], y: Scalar, step: Scalar) -> WorkedMLP:
    """One step of stochastic gradient descent on one example."""
    step = positive("step", real("step", step, ""))
    return jax.tree.map(lambda p, g: p - step * g, network, mlp_gradient(network, x, y))


class ScalarChain(NamedTuple):
    """The output of a chain of scalar layers, its derivatives, and the sensitivities, innermost layer first."""

    output: jax.Array
    by_weights: jax.Array
    by_biases: jax.Array
    deltas: jax.Array

    __repr__ = shown


@implements("M06.11", "M06.12", "M06.13")
def scalar_chain(
    x: Scalar,
    weights: Float[ArrayLike, "L"],
    biases: Float[ArrayLike, "L"],
    activations: Sequence[tuple[Callable, Callable]],
    head: Sequence[Callable],
) -> ScalarChain:
    r"""$g(\sigma_L(w_L\cdots\sigma_1(w_1x+b_1)\cdots+b_L))$ and its derivatives by the recursion of the $\delta$.

    `activations` holds a pair (function, derivative) for each layer, `head` the pair of $g$; all of scalars.
    """
    x, dims = real("x", x, ""), {}
    weights, biases = real("weights", weights, "L", dims), real("biases", biases, "L", dims)
    pairs = list(activations)
    if len(pairs) != dims["L"]:
        raise ValueError(f"activations must hold {dims['L']} pairs, one for each layer, got {len(pairs)}.")
    pre, post = [], [x]
    for i, (value, _) in enumerate(pairs):
        pre.append(weights[i] * post[-1] + biases[i])
        post.append(value(pre[-1]))
    deltas = [head[1](post[-1]) * pairs[-1][1](pre[-1])]
    for i in range(len(pairs) - 2, -1, -1):
        deltas.insert(0, deltas[0] * weights[i + 1] * pairs[i][1](pre[i]))
    deltas = jnp.stack(deltas)
    return ScalarChain(head[0](post[-1]), deltas * jnp.stack(post[:-1]), deltas, deltas)
