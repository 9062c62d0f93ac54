"""One sequence from another: the law of the target, and what fits through one vector."""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Range, at_most, claim, control, equal, estimate
from corollary.language import sample_sequence, sequence_log_probability
from corollary.nets.recurrent.seq2seq import Seq2Seq


@claim(rows=("E05.24", "E05.25", "E05.26"))
def autoregressive_factorisation(
    key,
    *,
    tokens: Annotated[int, Range(2, 5)] = 3,
    length: Annotated[int, Range(2, 5)] = 4,
    units: Annotated[int, Range(4, 64)] = 8,
    sources: Annotated[int, Range(1, 100)] = 8,
    draws: Annotated[int, Range(2000, 1_000_000)] = 4000,
):
    r"""The product of the laws of the next token is a law of sequences.

    $p(y_{1:n}\mid x)=\prod_{i=1}^np(y_i\mid x,y_{1:i-1})$ with any factors that are laws given the tokens before: the
    probabilities of all $K^n$ sequences sum to 1, whatever the source $x$. Here an encoder and decoder with attention
    and random weights; all tokens known beforehand (teacher forcing) or one after the other give the same product, and
    tokens drawn one after the other follow it. With an end token the sequences that ended by step $n$ have together the
    probability that those still going on lack. Where a factor sees the token that it is the law of, there is no such
    sum.
    """

    @jax.jit
    def measure(key):
        model_key, source_key, draw_key = jax.random.split(key, 3)
        model = Seq2Seq(5, tokens, units, key=model_key)
        # larger weights make the laws differ from uniform ones
        model = jax.tree.map(lambda a: 3.0 * a if eqx.is_inexact_array(a) else a, model)
        xs = jax.random.randint(source_key, (sources, 6), 0, 5)
        ys = jnp.asarray(np.indices((tokens,) * length).reshape(length, -1).T)
        given = jax.vmap(model.given)(xs)
        start = jnp.array([model.start])

        def over_all(f):
            return jax.vmap(lambda x: jax.vmap(lambda y: f(x, y))(ys))

        def both(x, y):  # the law of each token before it is known, and the one after it
            rows = jax.nn.log_softmax(model(x, jnp.append(y, 0)))
            return [jnp.take_along_axis(r, y[:, None], 1).sum() for r in (rows[:-1], rows[1:])]

        forced, seeing = over_all(both)(xs)
        ending = over_all(lambda g, y: sequence_log_probability(g, start, y, end=0))(given)
        first = jax.tree.map(lambda a: a[0], eqx.filter(given, eqx.is_array))
        first = eqx.combine(first, given)
        drawn = jax.vmap(lambda k: sample_sequence(first, start, length, key=k).log_probability)(
            jax.random.split(draw_key, draws)
        )
        return forced, ending, seeing, drawn, ys

    forced, ending, seeing, drawn, ys = measure(key)
    # a product of n numbers and a sum of K^n: some tens of roundings
    yield equal("sum over all sequences", np.exp(forced).sum(1), 1.0, rtol=1e-12, along="source")
    law = np.exp(forced[0])
    yield estimate(
        "surprise of drawn sequences", -drawn, -law @ np.asarray(forced[0]), wrong=length * np.log(float(tokens))
    )
    # with end token 0, one representative of each sequence that ended: zeros after the first
    ys = np.asarray(ys)
    over = np.cumsum(ys == 0, 1) > 0
    ended = over[:, -1] & ((ys == 0) == over).all(1)
    # those that did not end before the last step are all their tokens
    whole = ~over[:, -2]
    yield equal("teacher forcing and one step after the other", forced[:, whole], ending[:, whole], rtol=1e-10)
    sums = [np.exp(ending[:, ended]).sum(1), np.exp(ending[:, ~over[:, -1]]).sum(1)]
    yield equal("sequences that ended and those that did not", sums[0] + sums[1], 1.0, rtol=1e-12, along="source")
    yield at_most("sequences that ended", sums[0], 1.0, along="source")
    yield control(
        "factors that see their own token",
        equal("sum over all sequences", np.exp(seeing).sum(1), 1.0, rtol=1e-12, along="source"),
    )


@claim(rows=("E05.27",))
def fixed_vector_bottleneck(
    key,
    *,
    bits: Annotated[int, Range(1, 7)] = 6,
    longest: Annotated[int, Range(8, 14)] = 10,
    networks: Annotated[int, Range(1, 100)] = 20,
):
    r"""What one vector cannot tell apart no decoder can write, and attention has one vector for every token.

    Let an encoder map the $K^T$ sources of length $T$ to codes of $b$ bits. Whatever the decoder, the share of sources
    that it can reproduce (or reverse, or translate one to one) is at most the number of different codes over $K^T$, so
    at most $\min(1,2^bK^{-T})$: all is well up to $T=b/\log_2K$, and beyond it the share falls by the factor $K$ with
    every token. A shift register attains this. Gated recurrent units with random weights, whose states are rounded to
    their signs, use far fewer codes. A decoder with attention is told the code at every position: those of the shift
    register, also of $b$ bits each, tell all sources apart at every length.
    """

    @jax.jit
    def measure(key):
        def signs(key, sources):
            model = Seq2Seq(2, 2, bits, key=key, attention=False)
            # large weights: small ones make states that hardly depend on what was read first
            model = jax.tree.map(lambda a: 3.0 * a if eqx.is_inexact_array(a) else a, model)
            return jax.vmap(lambda x: model.encode(x).states > 0)(sources)

        # one run over the longest sources has those of all lengths as prefixes
        sources = jnp.asarray(np.indices((2,) * longest).reshape(longest, -1).T)
        return jax.vmap(lambda k: signs(k, sources))(jax.random.split(key, networks)), sources

    states, sources = map(np.asarray, measure(key))
    lengths = np.arange(1, longest + 1)
    bound = np.minimum(1.0, 2.0 ** (bits - lengths))

    def share(codes, n):
        return len(np.unique(codes.reshape(len(codes), -1), axis=0)) / 2.0**n

    def register(n):  # the last bits that were read, zeros before them
        padded = np.concatenate([np.zeros((len(sources), bits), int), sources[:, :n]], 1)
        return padded[:, n:]

    random = np.array([[share(net[:, n - 1], n) for n in lengths] for net in states])
    exact = np.array([share(register(n), n) for n in lengths])
    told = np.array([share(np.stack([register(i) for i in range(1, n + 1)], 1), n) for n in lengths])
    yield equal("share of sources, shift register", exact, bound, rtol=0, atol=0, x=lengths, along="length")
    yield at_most("share of sources, random gated units", random, bound, x=lengths, along="length")
    yield equal("share of sources, all positions", told, 1.0, rtol=0, atol=0, x=lengths, along="length")
    yield control(
        "attention is not bound by one vector",
        at_most("share of sources, all positions", told, bound, x=lengths, along="length"),
    )
