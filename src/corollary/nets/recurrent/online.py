r"""Algorithm 1 of M: an Elman network learns from every observation as it comes, nothing is sent back in time."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike, Float

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import positive, real
from corollary.catalog import implements
from corollary.nets.recurrent.bptt import Streamed
from corollary.nets.recurrent.elman import Elman


class OnlineStep(NamedTuple):
    """The network after one observation, its state, and the error before the update."""

    network: Elman
    state: jax.Array
    error: jax.Array

    __repr__ = shown


@implements("M13.12")
def online_step(
    network: Elman, state: Float[ArrayLike, "..."], x: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."], step: Scalar
) -> OnlineStep:
    r"""One turn of Algorithm 1, for the loss $\frac12e_k^2$ with $e_k=Y^m_k-Y_k$.

    $Z_{k+1}=\sigma(a)$, $a=w_{zi}X_k+w_{zz}Z_k+b_z$, $Y^m_k=w_oZ_{k+1}+b_o$; then every parameter moves by
    $-\eta_k$ times the derivative that holds $Z_k$ fixed: with $g=w_o^\top e_k\odot\sigma'(a)$ these are
    $e_k$, $e_kZ_{k+1}^\top$, $gX_k^\top$, $gZ_k^\top$ and $g$. As printed the algorithm takes twice that, the step for
    the loss $e_k^2$, and moves $b_o$ once for every unit.
    """
    cell, readout = network.cell, network.readout
    before = cell.drive(x) + cell.recurrent @ state
    after = cell.activation(before)
    error = readout(after) - y
    g = (readout.weight.T @ error) * cell.activation.prime(before)
    moved = {
        "recurrent": cell.recurrent - step * jnp.outer(g, state),
        "inputs": cell.inputs - step * jnp.outer(g, x),
        "bias": cell.bias - step * g,
        "weight": readout.weight - step * jnp.outer(error, after),
        "offset": readout.bias - step * error,
    }
    network = eqx.tree_at(
        lambda e: (e.cell.recurrent, e.cell.inputs, e.cell.bias, e.readout.weight, e.readout.bias),
        network,
        tuple(moved.values()),
    )
    return OnlineStep(network, after, error)


@implements("M13.12")
def online_sgd(
    network: Elman, xs: Float[ArrayLike, "T _"], ys: Float[ArrayLike, "T _"], step: Float[ArrayLike, "..."]
) -> Streamed:
    r"""Algorithm 1: `online_step` along a stream (T, n), (T, q), with steps of size $\eta_k$: `step` (T,) or a number.

    The network has an affine output, biases, and one of our activations, whose derivative is known. The losses are
    $\frac12\|e_k\|^2$.
    """
    if not isinstance(network, Elman) or network.cell.bias is None or network.readout.bias is None:
        raise TypeError("network must be an Elman network with biases.")
    if not hasattr(network.cell.activation, "prime") or getattr(network.readout.activation, "name", "") != "identity":
        raise TypeError("network must have an activation with a derivative and the identity at its output.")
    dims = {}
    xs = real("xs", xs, f"T {network.cell.inputs.shape[1]}", dims)
    ys = real("ys", ys, f"T {network.readout.weight.shape[0]}", dims)
    step = positive("step", real("step", step))
    if step.ndim > 1 or (step.ndim == 1 and step.shape[0] != dims["T"]):
        raise ValueError(f"step must be a number or one for each of {dims['T']} steps, got shape {step.shape}.")
    step = jnp.broadcast_to(step, (dims["T"],))
    dtype = jnp.result_type(xs, ys, step, *jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array)))
    params, static = eqx.partition(network, eqx.is_inexact_array)
    start = jax.tree.map(lambda a: a.astype(dtype), (params, network.cell.initial()))

    def turn(carry, now):
        params, state = carry
        after = online_step(eqx.combine(params, static), state, *now)
        return (eqx.filter(after.network, eqx.is_inexact_array), after.state), 0.5 * jnp.sum(after.error**2)

    (params, state), losses = jax.lax.scan(turn, start, (xs, ys, step))
    return Streamed(eqx.combine(params, static), losses, state)
