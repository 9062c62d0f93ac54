"""Sensitivities that vanish on their way down, and whether they depend on the weights they meet."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.autodiff import Layer, layered_backprop, random_layers
from corollary.evidence import Range, Size, at_least, at_most, claim, control, equal, estimate, monotone, printed


def _mean_field_factor():
    r"""$(E\,S'(Z)^2)^{1/2}$ for normal $Z$ of variance $q=E\,S(Z)^2$: the factor per layer for many units."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    q = 0.25
    for _ in range(50):
        s = 1 / (1 + np.exp(-np.sqrt(q) * nodes))
        q = weights @ s**2
    return np.sqrt(weights @ (s * (1 - s)) ** 2)


@claim(rows=("M06.08",), full={"networks": 200, "depth": 50})
def logistic_units(key, *, networks: Size = 32, depth: Annotated[int, Range(3, 60)] = 20, width: Size = 30):
    r"""Through a layer of logistic units sensitivities shrink to a quarter, if the weights are bounded by one.

    Since $S'=S(1-S)\le\frac14$, $\|\delta^{\ell-1}\|_\infty\le\frac14\|W^\ell\|_\infty\|\delta^\ell\|_\infty$, where
    $\|W\|_\infty$ is the largest absolute row sum of the $N_{\ell-1}\times N_\ell$ matrix. With independent weights
    of variance $1/N$ and no biases the Euclidean norm shrinks by a factor of at most about $\frac14$ a layer; with
    weights 8 times as large the factor 4 is lost.
    """
    keys = jax.random.split(key, networks)

    @jax.jit
    def measure(keys):
        def one(key, scale, name):
            layer_key, x_key = jax.random.split(key)
            layers = [Layer(w * scale, 0 * b) for w, b in random_layers([width] * (depth + 1), key=layer_key)]
            x = jax.random.normal(x_key, (width,))
            deltas = jnp.stack(layered_backprop(layers, x, jnp.ones(width), name).deltas)
            rows = jnp.stack([jnp.abs(layer.weights).sum(1).max() for layer in layers[1:]])
            return jnp.abs(deltas).max(1), rows, jnp.linalg.norm(deltas, axis=1)

        return {
            "logistic": jax.vmap(lambda k: one(k, 1.0, "logistic"))(keys),
            "large": jax.vmap(lambda k: one(k, 8.0, "logistic"))(keys),
            "relu": jax.vmap(lambda k: one(k, jnp.sqrt(2.0), "relu"))(keys),
        }

    m = measure(keys)
    largest, rows, _ = m["logistic"]
    yield at_most("largest sensitivity, layer by layer", largest[:, :-1], rows * largest[:, 1:] / 4, along="layer")
    factors = {name: (norm[:, 0] / norm[:, -1]) ** (1 / (depth - 1)) for name, (_, _, norm) in m.items()}
    # a Gaussian matrix with variance 1/N keeps the norm on average; its fluctuations of 1/sqrt(2N) a layer average out
    # over the layers, and five standard deviations of what is left cover the largest of all networks
    spread = 1 + 5 / np.sqrt(2 * width * depth)
    yield at_most("factor per layer, logistic", factors["logistic"], spread / 4)
    average = jnp.stack([factors["logistic"].mean()])
    yield at_most("average factor per layer", average, 0.25)
    yield at_least("average factor per layer: not much less", average, _mean_field_factor() / spread)
    yield control("weights 8 times as large", at_most("factor per layer", factors["large"], spread / 4))
    yield control("rectified units with their own scaling", at_most("factor per layer", factors["relu"], spread / 4))


@claim(
    rows=("M06.08",),
    erratum="The reduction by 4 a layer is stated without a bound on the weights, which it needs.",
)
def printed_reduction(key, *, depth: Annotated[int, Range(8, 60)] = 20):
    r"""Through layers of logistic units the sensitivities become very small.

    As printed, without a word on the weights: "if we propagate through several layers, the resulting gradient will
    eventually become very small". One unit per layer with weight 8 and bias -4 keeps its input 0.5 at the
    pre-activation 0, where the slope is $\frac14$, and every layer doubles the sensitivity: what holds is
    $|\delta^{\ell-1}|\le\frac14|w|\,|\delta^\ell|$, here with equality. With weight 1 and bias $-\frac12$ (a second
    instance, with weights bounded by one) every layer takes three quarters away.
    """

    def sensitivities(weight):
        layers = [Layer(jnp.full((1, 1), weight), jnp.full(1, -weight / 2))] * depth
        return jnp.concatenate(layered_backprop(layers, jnp.array([0.5]), jnp.array([0.0])).deltas)

    large, small = sensitivities(8.0), sensitivities(1.0)
    yield equal("factor per layer, weight 8: a quarter of the weight", large[:-1] / large[1:], 8 / 4, along="layer")
    yield equal("factor per layer, weight 1: a quarter", small[:-1] / small[1:], 1 / 4, along="layer")
    through = np.arange(1, depth)
    decay = large[::-1][1:] / large[-1]
    yield printed(monotone("sensitivity against layers passed, weight 8", decay, "decreasing", x=through))
    yield printed(at_most("sensitivity after all layers over that of the last, weight 8", decay[-1], 1.0))


def _dependence(delta, standard):
    """Of mean zero if `delta` is independent of this standard normal variable. Bounded, so its mean is well known."""
    return jnp.tanh(delta**2) * ((jnp.abs(standard) > 0.6744897501960817) - 0.5)


@claim(rows=("M06.10",), full={"draws": 100_000})
def independent_of_own_weights(key, *, draws: Size = 8000):
    r"""With linear layers and a loss linear in the output, sensitivities do not depend on the weights below them.

    If the activations from layer $\ell$ on are linear and $\Lambda=a\cdot H^L$, then $\delta^\ell=W^{\ell+1}\cdots
    W^La$ is a function of the layers above alone: independent of $W^\ell$, when the weights are independent. (This is
    what Exercise 6.2 is about, with the premises it needs.) Measured: the derivative of $\delta^\ell$ by $W^\ell$,
    and over random networks the covariance of $\tanh\delta^2$ with the event that a weight exceeds its median size.
    """
    widths = [2, 2, 2, 1]

    @jax.jit
    def measure(keys):
        def sensitivities(layers, x, loss):
            return layered_backprop(layers, x, jnp.ones(1), "linear", loss).deltas[1]

        def one(key, loss):
            layer_key, x_key = jax.random.split(key)
            layers = [Layer(w, 0 * b) for w, b in random_layers(widths, key=layer_key)]
            x = jax.random.normal(x_key, (2,))
            by_weights = jax.jacobian(lambda p: sensitivities(p, x, loss))(layers)[1].weights
            return sensitivities(layers, x, loss)[0], layers[1].weights[0, 0], jnp.abs(by_weights).max()

        def linear(h, y):
            return jnp.ones_like(h)

        return jax.vmap(lambda k: one(k, linear))(keys), jax.vmap(lambda k: one(k, "squared"))(keys)

    (delta, weight, slope), (_, _, other_slope) = measure(jax.random.split(key, draws))
    yield equal("derivative by the layer's own weights", slope, 0.0)
    # the weights have variance 1/2
    yield estimate(
        "covariance of tanh δ² with a large weight", _dependence(delta, weight * jnp.sqrt(2.0)), 0.0, wrong=0.05
    )
    yield control("with the squared loss", equal("derivative by the layer's own weights", other_slope, 0.0))


@claim(
    rows=("M06.10",),
    erratum="The exercise is false as posed: with the squared loss the sensitivity depends on the weights below.",
)
def independence_as_posed(key, *, draws: Size = 8000):
    r"""With a linear layer and independent weights and inputs, sensitivities and weights of that layer are independent.

    As posed in Exercise 6.2. One linear layer with one unit, the squared loss and the label 0 has the sensitivity
    $\delta=wx$. For independent standard normal $w$ and $x$ it is large where $w$ is: the covariance of
    $\tanh\delta^2$ with the event that $|w|$ exceeds its median is not zero. With the loss $xH$, linear in the output
    $H$ (a second instance), $\delta=x$ and the two are independent.
    """
    w, x = jax.random.normal(key, (2, draws))

    @jax.vmap
    def sensitivities(w, x):
        unit = [Layer(w[None, None], jnp.zeros(1))]
        squared = layered_backprop(unit, x[None], jnp.zeros(1), "linear")
        linear = layered_backprop(unit, x[None], x[None], "linear", lambda h, y: y)
        return squared.deltas[0][0], linear.deltas[0][0]

    squared, linear = sensitivities(w, x)
    name = "covariance of tanh δ² with a large weight"
    yield equal("the sensitivity, squared loss", squared, w * x)
    yield estimate(f"{name}, loss linear in the output", _dependence(linear, w), 0.0, wrong=0.05)
    yield printed(estimate(f"{name}, squared loss", _dependence(squared, w), 0.0, wrong=0.1))
