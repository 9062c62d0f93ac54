"""The weights of attention beside those with which an LSTM remembers."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims._drawn import randomise
from corollary.claims.nets.attention._pictures import matrices
from corollary.evidence import Range, Size, at_least, at_most, claim, control, equal, monotone, printed
from corollary.nets import zeros
from corollary.nets.attention import MultiHeadAttention
from corollary.nets.recurrent import LSTM
from corollary.nets.recurrent.lstm import realised_preactivations, split_gates
from corollary.nets.recurrent.scan import linear_scan


def _memory_weights(keep, write):
    """The derivative of every memory in every candidate, (t, k) for each unit, by running the memory."""
    run = lambda f, g: jax.jacfwd(lambda r: linear_scan(f, g * r))(jnp.zeros_like(f))  # noqa: E731
    return jax.vmap(run, (1, 1), 2)(keep, write)


@claim(rows=("M13.44",))
def attention_and_lstm_weights(key, *, steps: Annotated[int, Range(3, 100)] = 20, inputs: Size = 4, units: Size = 3):
    r"""Attention weighs all tokens and its weights sum to 1; an LSTM weighs the past, by the gates in between.

    Let $Z_t=f_t\odot Z_{t-1}+g_t\odot r_t$ be the memory of an LSTM and $M_{k,t}=\partial Z_t/\partial r_k$ with the
    gates held fixed. (a) $M_{k,t}=0$ for $k>t$, while all attention weights $a_{ij}$ are positive. (b) For
    $k_1<k_2\le t$ $$M_{k_1,t}=\frac{g_{k_1}}{g_{k_2}}\Big(\prod_{\ell=k_1+1}^{k_2}f_\ell\Big)M_{k_2,t},$$ so that
    $M_{k_1,t}\le M_{k_2,t}$ if and only if $g_{k_1}\prod f_\ell\le g_{k_2}$, for instance when the writing gate is
    constant and the keeping gate less than 1; with a constant keeping gate $\bar f$ the weights are
    $g\bar f^{\,t-k}$. (c) $\sum_ja_{ij}=1$, while $\sum_kM_{k,t}$ is at most $t$, and $t$ for open gates. If the
    writing gate falls with time the weights need not fall with the distance, even if all $f<1$.
    """

    @jax.jit
    def measure(key):
        blank = MultiHeadAttention(inputs, 1, key=key, initialisation=zeros), LSTM(inputs, units, key=key)
        (attention, cell), xs = randomise((blank, jnp.zeros((steps, inputs))), key)
        gates = split_gates(realised_preactivations(cell, xs))
        ones = jnp.ones_like(gates.keep)
        # as it is; with a constant writing gate; with both constant; wide open: the memory runs once for all
        keep = jnp.stack([gates.keep, gates.keep, 0.8 * ones, ones])
        write = jnp.stack([gates.write, 0.7 * ones, 0.7 * ones, ones])
        return attention.weights(xs)[0], gates, jax.vmap(_memory_weights)(keep, write)

    weights, gates, found = measure(key)
    past = np.tri(steps, dtype=bool)
    M = np.asarray(found)
    keep, write = np.asarray(gates.keep), np.asarray(gates.write)
    yield equal("LSTM: weights of later inputs", M[0][~past], 0.0, rtol=0, atol=0)
    yield at_least("attention: weights of all tokens", weights, np.finfo(float).tiny)
    first, second = 0, steps // 2
    ratio = write[first] / write[second] * np.prod(keep[first + 1 : second + 1], axis=0)
    # products of up to a hundred factors; tiny weights relative to themselves
    yield equal("LSTM: weight of step 1 from that of a later step", M[0, second:, first], ratio * M[0, second:, second])
    last = M[1, -1].T
    yield monotone("constant writing gate: weight at the last step", last, strict=True, along="k")
    falling = 0.7 * 0.8 ** np.arange(steps)
    yield equal("constant gates: weight against distance", M[2, -1, ::-1, 0], falling, along="distance")
    yield equal("attention: sum of the weights", weights.sum(1), 1.0)
    yield at_most("LSTM: sum of the weights", M[:2].sum(2).max(2), np.arange(1, steps + 1.0), along="t")
    yield equal("open gates: sum of the weights", M[3].sum(1).T, np.arange(1, steps + 1.0), along="t")
    closing = np.asarray(_memory_weights(np.full((steps, 1), 0.9), 0.01 ** np.linspace(0, 1, steps)[:, None]))
    yield control(
        "the writing gate is constant: here it falls with time", monotone("weight at the last step", closing[-1, :, 0])
    )
    yield matrices(
        "weights of attention and of one unit of an LSTM",
        {"attention": weights, "LSTM": M[0, :, :, 0]},
        across="k, seen",
        down="t, seeing",
    )


@claim(
    rows=("M13.44",),
    erratum="Keeping gates below 1 do not order the weights: they carry the writing gate of their own step as well.",
)
def printed_decay(key, *, steps: Annotated[int, Range(4, 40)] = 5):
    r"""The weights of an LSTM as printed: the older, the smaller, if all keeping gates are less than 1.

    M says that $f_\ell<1$ for all $\ell\le t$ implies $M_{k_1,t}\le M_{k_2,t}$ for $k_1<k_2$. With $f=0.9$ and writing
    gates 1 at the first and 0.01 at the later steps the first input has the largest weight. What holds is
    $M_{k,t}=g_k\prod_{\ell=k+1}^tf_\ell$, and the order if the writing gate is the same in all steps.
    """
    write = np.r_[1.0, np.full(steps - 1, 0.01)]
    keep = np.full((steps, 1), 0.9)
    weights = _memory_weights(keep, write[:, None])[-1, :, 0]
    by_gates = write * 0.9 ** np.arange(steps - 1, -1, -1)
    yield equal("weight of step k at the last step, by both gates", weights, by_gates, along="k")
    level = _memory_weights(keep, np.ones((steps, 1)))[-1, :, 0]
    yield monotone("weight of step k, the same writing gate in all steps", level, strict=True, along="k")
    yield printed(monotone("weight of step k at the last step", weights, along="k"))
