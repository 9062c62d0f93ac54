r"""Back-propagation through time, written out, and what keeps its gradients from exploding or vanishing.

A recurrent network unrolled over $T$ steps is an acyclic network with $T$ copies of the same weights, so its gradient
is the sum over the copies. Nothing here calls automatic differentiation.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

from corollary._types import Scalar
from corollary._validate import positive, real, whole
from corollary.catalog import implements


@implements("T04.12")
class RNN(eqx.Module):
    r"""$h_t=\tanh(Wh_{t-1}+Ux_t+b)$ with $h_0=0$, and the output $Vh_t+c$ at every step."""

    recurrent: jax.Array
    inputs: jax.Array
    bias: jax.Array
    readout: jax.Array
    offset: jax.Array

    def __init__(self, inputs: int, units: int, outputs: int, *, key: PRNGKeyArray):
        inputs, units, outputs = whole("inputs", inputs), whole("units", units), whole("outputs", outputs)
        k1, k2, k3 = jax.random.split(key, 3)
        self.recurrent = jax.random.orthogonal(k1, units)
        self.inputs = jax.random.normal(k2, (units, inputs)) / jnp.sqrt(inputs)
        self.readout = jax.random.normal(k3, (outputs, units)) / jnp.sqrt(units)
        self.bias, self.offset = jnp.zeros(units), jnp.zeros(outputs)

    def hidden(self, xs: Float[ArrayLike, "T _"]) -> Float[Array, "T _"]:
        """The states of all steps, (T, units)."""
        xs = real("xs", xs, f"T {self.inputs.shape[1]}")

        def advance(h, x):
            h = jnp.tanh(self.recurrent @ h + self.inputs @ x + self.bias)
            return h, h

        start = jnp.zeros(self.bias.shape, jnp.result_type(xs, self.recurrent))
        return jax.lax.scan(advance, start, xs)[1]

    def __call__(self, xs: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """The outputs of all steps, (T, outputs)."""
        return self.hidden(xs) @ self.readout.T + self.offset


def sequence_loss(rnn: RNN, xs: Float[ArrayLike, "..."], targets: Float[ArrayLike, "_ _"]) -> Float[Array, ""]:
    r"""$\frac1{2T}\sum_t\|Vh_t+c-y_t\|^2$."""
    outputs = rnn(xs)
    targets = real("targets", targets, f"{outputs.shape[0]} {outputs.shape[1]}")
    return jnp.sum((outputs - targets) ** 2) / (2 * outputs.shape[0])


@implements("T04.12")
def bptt_by_hand(
    rnn: RNN, xs: Float[ArrayLike, "..."], targets: Float[ArrayLike, "steps _"], window: int | None = None
) -> RNN:
    r"""The gradient of `sequence_loss`, in the form of the network.

    With a `window` $k$ (truncated back-propagation) the error of a step is sent back through that step and the
    $k-1$ before it, and no further.
    """
    hidden = rnn.hidden(xs)
    steps, units = hidden.shape
    xs = real("xs", xs)
    targets = real("targets", targets, f"{steps} {rnn.offset.shape[0]}")
    errors = (hidden @ rnn.readout.T + rnn.offset - targets) / steps
    slopes = 1 - hidden**2
    sources = errors @ rnn.readout  # what each step's own loss sends to its state
    if window is None:

        def back(delta, step):
            source, slope = step
            delta = (source + rnn.recurrent.T @ delta) * slope
            return delta, delta

        _, deltas = jax.lax.scan(back, jnp.zeros(units, hidden.dtype), (sources, slopes), reverse=True)
    else:
        # all errors travel side by side, one step back a turn; those that pass the start drop out
        def turn(carry, _):
            deltas, total = carry
            moved = jnp.concatenate([deltas[1:] @ rnn.recurrent, jnp.zeros((1, units), hidden.dtype)]) * slopes
            return (moved, total + moved), None

        first = sources * slopes
        (_, deltas), _ = jax.lax.scan(turn, (first, first), length=whole("window", window) - 1)
    before = jnp.concatenate([jnp.zeros((1, units), hidden.dtype), hidden[:-1]])
    parts = (deltas.T @ before, deltas.T @ xs, deltas.sum(0), errors.T @ hidden, errors.sum(0))
    return eqx.tree_at(lambda r: (r.recurrent, r.inputs, r.bias, r.readout, r.offset), rnn, parts)


@implements("T04.13", "M15.34")
def clip_gradient(gradient: PyTree, most: Scalar) -> PyTree:
    r"""$g\min(1,c/\|g\|)$ for a pytree $g$ with its Euclidean norm over all leaves: the direction stays."""
    leaves = [real("gradient", leaf) for leaf in jax.tree.leaves(gradient)]
    if not leaves:
        raise ValueError("gradient must have at least one leaf.")
    most = positive("most", real("most", most, ""))
    # the norm of the scaled entries: squares of huge ones would overflow, and those are the ones to clip
    scale = jnp.maximum(jnp.stack([jnp.max(jnp.abs(leaf)) for leaf in leaves]).max(), jnp.finfo(leaves[0].dtype).tiny)
    norm = scale * jnp.sqrt(sum(jnp.sum((leaf / scale) ** 2) for leaf in leaves))
    return jax.tree.map(lambda leaf: leaf * jnp.where(norm > most, most / norm, 1.0), gradient)
