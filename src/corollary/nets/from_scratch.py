r"""A multilayer perceptron with its backward pass written out, after the listing of section 2.7 of text B.

Batches are rows, weights have shape (inputs, outputs) and multiply from the right, as in the listing. Its error is
kept behind `divide_again`: the derivative of the mean loss by the logits already holds the $1/N$ of the mean, and
the listing's layers divide by $N$ once more.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from corollary._show import shown
from corollary._validate import positive, real, whole, within
from corollary.catalog import implements

CLIP = 1e-12  # the listing keeps probabilities this far from 0 and 1


class Affine(NamedTuple):
    r"""The parameters of one layer $X\mapsto XW+b$, or the derivatives by them."""

    weight: jax.Array
    bias: jax.Array

    __repr__ = shown


class History(NamedTuple):
    """The parameters at the end, and loss and accuracy before every step."""

    parameters: tuple[Affine, ...]
    losses: jax.Array
    accuracies: jax.Array

    __repr__ = shown


@implements("B02.23", "B02.24")
def initial_parameters(sizes, *, key) -> tuple[Affine, ...]:
    r"""Weights $N(0,1)/\sqrt{(d_{in}+d_{out})/2}$, which is Glorot's, and zero biases for a list of widths."""
    sizes = tuple(whole("sizes", n) for n in sizes)
    if len(sizes) < 2:
        raise ValueError(f"sizes must hold at least the input and the output, got {sizes}.")
    keys = jax.random.split(key, len(sizes) - 1)
    return tuple(
        Affine(jax.random.normal(k, (n, m)) / ((n + m) / 2) ** 0.5, jnp.zeros(m))
        for k, n, m in zip(keys, sizes[:-1], sizes[1:], strict=True)
    )


@implements("B02.22", "B02.23", "B02.24")
def forward(parameters, x):
    """The logits, and what the backward pass needs: the input of every layer. ReLU after every layer but the last."""
    x = real("x", x, "N d")
    inputs = []
    for i, layer in enumerate(parameters):
        inputs.append(x)
        x = x @ layer.weight + layer.bias
        if i < len(parameters) - 1:
            x = jnp.maximum(x, 0)
    return x, inputs


@implements("B02.21", "B02.22")
def bce_forward(logits, y):
    r"""The mean binary cross-entropy under $\hat y=\sigma(z)$, and $\hat y$ clipped to $[10^{-12},1-10^{-12}]$."""
    logits, y = _pair(logits, y)
    p = jnp.clip(jax.nn.sigmoid(logits), CLIP, 1 - CLIP)
    return -jnp.mean(y * jnp.log(p) + (1 - y) * jnp.log1p(-p)), p


@implements("B02.21", "B02.22")
def bce_backward(p, y):
    r"""$(\hat y-y)/N$, the derivative of the mean loss by the logits."""
    p, y = _pair(p, y)
    return (p - y) / p.shape[0]


@implements("B02.22", "B02.23", "B02.24")
def backward(parameters, inputs, slope, *, divide_again: bool = False):
    r"""The derivatives by all parameters, and by the input, from `slope`, the derivative by the logits.

    Layer by layer from the last: $dW=X^\top dZ$, $db=\sum_idZ_i$, $dX=dZ\,W^\top$; through ReLU, $dX$ passes where the
    layer's input is positive (0 at 0). With `divide_again` $dW$ and $db$ are divided by $N$, as in the listing.
    """
    slope = real("slope", slope, "N m", finite=False)
    share = 1 / slope.shape[0] if divide_again else 1.0
    gradients = []
    for i in reversed(range(len(parameters))):
        gradients.append(Affine(share * inputs[i].T @ slope, share * slope.sum(axis=0)))
        slope = slope @ parameters[i].weight.T
        if i > 0:  # what entered this layer is the output of a ReLU, positive exactly where its own input was
            slope = slope * (inputs[i] > 0)
    return tuple(gradients[::-1]), slope


@implements("B02.25")
def gd_step(parameters, gradients, step, weight_decay=0.0, *, coupled: bool = False):
    r"""$W\leftarrow W-(\eta\,dW+\lambda W)$, $b\leftarrow b-\eta\,db$.

    The listing does not multiply the decay by the step; with `coupled` it is $\eta\lambda W$, as is usual. Biases do
    not decay.
    """
    step = within("step", real("step", step, ""), 0.0)
    decay = within("weight_decay", real("weight_decay", weight_decay, ""), 0.0)
    decay = step * decay if coupled else decay
    return tuple(
        Affine(layer.weight - (step * slope.weight + decay * layer.weight), layer.bias - step * slope.bias)
        for layer, slope in zip(parameters, gradients, strict=True)
    )


@implements("B02.27")
def run(parameters, x, y, *, step, steps: int, weight_decay=0.0, divide_again: bool = False) -> History:
    """Full-batch gradient descent on the mean binary cross-entropy, with loss and accuracy on the way."""
    step, steps = positive("step", real("step", step, "")), whole("steps", steps)
    x, y = real("x", x, "N d", dims := {}), real("y", y, "N 1", dims)

    def advance(parameters, _):
        logits, inputs = forward(parameters, x)
        loss, p = bce_forward(logits, y)
        gradients, _ = backward(parameters, inputs, bce_backward(p, y), divide_again=divide_again)
        accuracy = jnp.mean((p > 0.5) == (y > 0.5))
        return gd_step(parameters, gradients, step, weight_decay), (loss, accuracy)

    last, (losses, accuracies) = jax.lax.scan(advance, tuple(parameters), length=steps)
    return History(last, losses, accuracies)


def _pair(a, y):
    return real("logits", a, "N 1", dims := {}), within("y", real("y", y, "N 1", dims), 0.0, 1.0)
