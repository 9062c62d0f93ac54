"""Positional encodings: what the sines and cosines have that other encodings have not."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.nets.attention._pictures import matrices
from corollary.evidence import Range, Size, at_least, claim, control, equal, estimate, printed
from corollary.nets.attention import random_positions, shift_rotation, sinusoidal_positions


@claim(rows=("B10.45", "E06.08", "E06.09", "M13.43"))
def relative_positions(
    key, *, length: Annotated[int, Range(20, 2000)] = 100, pairs: Size = 32, shift: Annotated[int, Range(1, 10)] = 7
):
    r"""In the sinusoidal encoding a shift of all positions is a rotation, and products depend on differences alone.

    Let $p_{t,2i}=\sin t\omega_i$ and $p_{t,2i+1}=\cos t\omega_i$ with $\omega_i=10^{-4\cdot2i/d}$, $i=0,\dots,d/2-1$.
    Then for all $t$ and $s$
    $$p_{t+s}=R_sp_t,\qquad\langle p_t,p_{t'}\rangle=\sum_i\cos((t-t')\omega_i),\qquad\|p_t\|^2=d/2,$$
    where $R_s$ rotates each pair by $s\omega_i$, whatever $t$ is. So $\|p_t-p_{t'}\|$ depends on $t-t'$ alone, and it
    is positive up to a length of 10,000. If each coordinate has its own frequency, $\omega_k=C^{k/d}$ as E defines it
    without naming $C$ (here $10^{-4}$; above 1 the frequencies would grow), sine and cosine do not belong together and
    all three are lost: no matrix takes every $p_t$ to $p_{t+1}$. E claims none of them. Independent random vectors do
    not have them either: their products are $d\,\delta_{tt'}$ on average.
    """
    size = 2 * pairs
    frequency = 10.0 ** (-8 * np.arange(pairs) / size)
    paired, single = (np.asarray(sinusoidal_positions(length, size, paired=kind)) for kind in (True, False))
    rotation = np.asarray(shift_rotation(shift, size))
    apart = np.subtract.outer(np.arange(length), np.arange(length))
    gram = np.cos(apart[..., None] * frequency).sum(-1)
    draws = jax.vmap(lambda k: random_positions(3, size, key=k))(jax.random.split(key, 400))
    inner = jnp.einsum("nid,njd->nij", draws, draws) / size
    # angles up to `length` with relative errors eps: absolute errors of 100 eps in every sine, and `pairs` terms
    error = 1e-11
    yield equal(
        "encoding after a shift, against the rotated one", paired[:-shift] @ rotation.T, paired[shift:], atol=error
    )
    yield equal("the rotation is orthogonal", rotation @ rotation.T, np.eye(size), atol=1e-14)
    yield equal("product of two positions", paired @ paired.T, gram, atol=error)
    yield equal("squared norm", (paired**2).sum(1), float(pairs), atol=error, along="position")
    far = np.asarray(sinusoidal_positions(10_000, size))
    distances = np.sqrt(((far[1:] - far[0]) ** 2).sum(1))
    # far above the rounding of angles up to 10,000; even with one pair, 710 is 6e-5 away from a multiple of 2 pi
    yield at_least("distance of two positions up to 10,000 apart", distances, 1e-6)
    yield estimate("random: products of three positions, over d", inner, np.eye(3), wrong=0.5)
    own = "sine and cosine share a frequency: here every coordinate has its own"
    yield control(
        own,
        equal(
            "encoding after a shift, against the rotated one", single[:-shift] @ rotation.T, single[shift:], atol=error
        ),
    )
    yield control(own, equal("product of two positions", single @ single.T, gram, atol=error))
    if length > size:  # fewer positions than coordinates are taken to anything by some matrix
        best = np.linalg.lstsq(single[:-1], single[1:], rcond=None)[0]
        # the rotation is such a matrix for the pairs; least squares of nearly dependent columns lose half of the digits
        yield control(
            own, equal("encoding of the next position, by the best matrix", single[:-1] @ best, single[1:], atol=1e-6)
        )
    noise = np.asarray(draws[0])
    yield control(
        "the encoding is sinusoidal: here random",
        equal("squared norm", (noise**2).sum(1), noise[:1] @ noise[0], atol=error),
    )
    yield matrices(
        "the encoding in pairs, and with a frequency for every coordinate",
        {"pairs": paired, "one by one": single},
        across="coordinate",
        down="position",
    )


@claim(
    rows=("M13.43",),
    erratum="The index of the frequencies must start at 0: from 1 on, two of the d coordinates have no value.",
)
def printed_frequencies(key, *, pairs: Size = 8, length: Size = 5):
    r"""The sinusoidal encoding with the printed range of frequencies.

    M defines $q_i(2k)=\sin(i/10^{4\cdot2k/d})$ and $q_i(2k+1)=\cos(i/10^{4\cdot2k/d})$ for $k\in\{1,\dots,d/2-1\}$ as
    the coordinates of $q_i\in\mathbb R^d$. These are $d-2$ coordinates; the fastest pair, which tells neighbours apart,
    is missing. With $k\in\{0,\dots,d/2-1\}$ there are $d$.
    """
    size = 2 * pairs
    found = np.asarray(sinusoidal_positions(length, size))

    def defined(first):
        """The coordinates that the two formulas define, for k from `first` on."""
        values = {}
        for k in range(first, size // 2):
            angle = np.arange(length) / 10.0 ** (4 * 2 * k / size)
            values |= {2 * k: np.sin(angle), 2 * k + 1: np.cos(angle)}
        return values

    whole, literal = defined(0), defined(1)
    yield equal("coordinates with a value, from 0 on", len(whole), size, rtol=0, atol=0)
    yield equal("their values", np.stack([whole[c] for c in range(size)], 1), found, atol=1e-12)
    yield printed(equal("coordinates with a value, from 1 on", len(literal), size, rtol=0, atol=0))
