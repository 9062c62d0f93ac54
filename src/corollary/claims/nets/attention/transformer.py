"""The blocks of a transformer: what shortcuts prevent, and what a decoder may see."""

import equinox as eqx
import jax
import jax.numpy as jnp

from corollary.claims._drawn import drawn
from corollary.claims.nets.attention._pictures import matrices
from corollary.evidence import Size, at_least, at_most, claim, control, equal, printed
from corollary.nets import zeros
from corollary.nets.attention import (
    DecoderBlock,
    EncoderBlock,
    MultiHeadAttention,
    PrintedDecoderBlock,
    Transformer,
)


def _spread(x):
    """The largest distance of two tokens."""
    return jnp.linalg.norm(x[:, None] - x[None], axis=-1).max()


def _contraction(weights):
    """Dobrushin's coefficient of a row-stochastic matrix: half the largest distance of two rows in the 1-norm."""
    return jnp.abs(weights[:, None] - weights[None]).sum(-1).max() / 2


@claim(rows=("B10.40",))
def shortcuts_prevent_collapse(key, *, tokens: Size = 8, width: Size = 8, depth: Size = 12):
    r"""Attention draws the tokens together by a known factor; the shortcut undoes it.

    Let $S=AXW^V$ with row-stochastic $A$ and let $\tau(A)=\frac12\max_{ij}\sum_k|a_{ik}-a_{jk}|$. Then
    $\max_{ij}\|s_i-s_j\|\le\tau(A)\,\|W^V\|\max_{ij}\|x_i-x_j\|$, with equality for two tokens and an orthogonal
    $W^V$. Blocks without shortcut ($Z=S$) therefore bring all tokens to one vector: each multiplies their spread by
    $\tau(A)$ at most when $W^V$ is orthogonal. With the shortcut, $Z=X+S$, it is at least $1-\tau(A)$ times the one
    before, and no such upper bound holds.
    """

    @jax.jit
    def measure(key):
        def path(x, alpha, keys):
            def layer(x, key):
                blank = MultiHeadAttention(width, key=jax.random.key(0), initialisation=zeros)
                q, k, v = jax.random.normal(key, (3, width, width)) * width**-0.5
                chosen = lambda m: (m.query.weight, m.key.weight, m.value.weight, m.output.weight)  # noqa: E731
                heads = eqx.tree_at(chosen, blank, (q, k, jnp.linalg.qr(v)[0], jnp.eye(width)))
                factor = _contraction(heads.weights(x)[0])
                x = alpha * x + heads(x)
                apart = jnp.linalg.norm(x - x.mean(0)) / jnp.linalg.norm(x)
                return x, (factor, _spread(x), apart)

            return _spread(x), *jax.lax.scan(layer, x, keys)[1]

        x_key, *layer_keys = jax.random.split(key, depth + 1)
        x, keys = jax.random.normal(x_key, (tokens, width)), jnp.stack(layer_keys)
        return jax.vmap(lambda alpha: path(x, alpha, keys))(jnp.array([0.0, 1.0])), path(x[:2], 0.0, keys)

    (start, factor, spread, apart), (start_two, factor_two, spread_two, _) = measure(key)
    before = jnp.concatenate([start[:, None], spread[:, :-1]], 1)
    # the spread ends in the rounding of the tokens, which are of the size of the first ones
    rounding = 1e-14 * float(start[0])
    bound = factor * before
    yield at_most("spread of the tokens, no shortcut", spread[0], bound[0], atol=rounding, along="layer")
    two = factor_two * jnp.concatenate([start_two[None], spread_two[:-1]])
    yield equal("two tokens: attained", spread_two, two, atol=rounding, along="layer")
    # the factors themselves go to zero with the spread, so that 1e-3 is left behind after a few layers
    yield at_most("relative distance from one vector at the end, no shortcut", apart[0, -1], 1e-3)
    yield at_least("spread of the tokens, with shortcut", spread[1], (1 - factor[1]) * before[1], along="layer")
    yield control(
        "with the shortcut", at_most("spread of the tokens", spread[1], bound[1], atol=rounding, along="layer")
    )


def _changed(tokens, others):
    """The tokens, and as often as there are tokens the same with one of them changed."""
    return jnp.concatenate([tokens[None], jax.vmap(lambda j: tokens.at[j].set(others[j]))(jnp.arange(len(tokens)))])


def _influence(outputs):
    """How much output token i changes with input token j: the largest entry.

    All outputs come from one batch, so that equal is equal: another program would round otherwise.
    """
    return jnp.abs(outputs[1:] - outputs[0]).max(-1).T


def _later(influence):
    """The entries above the diagonal: outputs and the tokens that come after them."""
    return influence[jnp.triu_indices(influence.shape[0], 1)]


@claim(rows=("B10.41", "B10.42", "E06.11", "M13.42"))
def decoder_sees_the_past_and_the_source(key, *, length: Size = 5, source: Size = 4):
    r"""A decoder sees the target up to the present and all of the source.

    In $p(y_n\mid y_{1:n-1},x)$ computed by an encoder and a decoder of any depth, with causal self-attention and
    attention to the encoder's output in every decoder block, the logits of $y_n$ do not change with $y_n$ and what
    follows it, exactly, and change with every earlier token and every source token. So the logits of all tokens at
    once (teacher forcing) are those of one token after the other, with kept keys and values. Attention to a single
    source token returns that token's value, whatever the query. Without the mask the logits see the answer.
    """

    @jax.jit
    def measure(key):
        net = drawn(lambda key: Transformer(6, 6, 8, 8, 2, 2, key=key, hidden=8), key, std=0.5)
        s_key, t_key, q_key = jax.random.split(key, 3)
        sources = jax.random.randint(s_key, (source,), 0, 6)
        inputs = jax.random.randint(t_key, (length,), 0, 6).at[0].set(net.start)
        targets, others = _changed(inputs, (inputs + 1) % 7), _changed(sources, (sources + 1) % 6)
        pairs = (
            jnp.concatenate([jnp.tile(sources, (length + 1, 1)), others]),
            jnp.concatenate([targets, jnp.tile(inputs, (source + 1, 1))]),
        )
        logits = jax.vmap(lambda s, t: net.decode(net.encode(s), t))(*pairs)
        context = net.encode(sources)
        free = jax.vmap(lambda t: net.decode(context, t, causal=False))(targets)

        language = net.given(sources)
        steps = jax.lax.scan(lambda c, token: language.step(token, c)[::-1], language.cache(length), inputs)[1]
        cross = jax.tree.map(lambda a: a[0], net.decoder.stack.blocks.cross)
        tokens = jax.random.normal(q_key, (4, 8))
        one = cross(tokens[1:], tokens[:1])
        value = cross.output.weight @ (cross.value.weight @ tokens[0] + cross.value.bias) + cross.output.bias
        return (
            _influence(logits[: length + 1]),
            _influence(logits[length + 1 :]),
            _influence(free),
            (logits[0], steps),
            (one, jnp.broadcast_to(value, one.shape)),
        )

    target, words, open_target, (together, steps), (one, value) = measure(key)
    yield equal("influence of later target tokens", _later(target), 0.0, atol=0.0)
    yield at_least("influence of earlier target tokens", target[jnp.tril_indices(length)], 1e-6)
    yield at_least("influence of every source token", words, 1e-6)
    yield equal("one token at a time", steps, together, rtol=1e-10)
    yield equal("one source token: its value", one, value)
    yield control("without the mask", equal("influence of later target tokens", _later(open_target), 0.0, atol=0.0))
    fields = {"decoder": target / target.max(), "without the mask": open_target / open_target.max()}
    yield matrices("what an output sees, by target token", fields, across="input token", down="output token")


@claim(
    rows=("B10.43",),
    erratum="Listing 10.3, captioned a decoder block, has neither a mask nor cross-attention: it is an encoder block.",
)
def listing_is_a_decoder(key, *, length: Size = 6):
    r"""As printed: the block of Listing 10.3 is a decoder block.

    The text says of a decoder that it attends "only to earlier output positions": an output would not depend on the
    tokens after it. Listing 10.3 is self-attention with a shortcut and normalisation, then two layers with a shortcut
    and normalisation; nothing in it knows an order. With masked self-attention first and attention to the encoder
    second, as the text describes it, a block is a decoder block.
    """
    meant, literal = _block_influence(DecoderBlock, key, length, source=3), _block_influence(EncoderBlock, key, length)
    yield equal("influence of later tokens, block as described", meant, 0.0, atol=0.0)
    yield printed(equal("influence of later tokens, block as listed", literal, 0.0, atol=0.0))


@claim(
    rows=("M13.42",),
    erratum="A masked attention after an attention without a mask, and none to the encoder, makes no decoder.",
)
def masked_attention_comes_second(key, *, length: Size = 6):
    r"""As printed: masked attention after the block's own attention makes a decoder (M, Section 13.9.2).

    "In a decoder, the output $z_i$ sees only $x_1,\dots,x_i$", says the text. In its block the first attention has no
    mask, and what it has mixed no later mask takes apart; nor does the block attend to the encoder. In the paper that
    the text describes the masked attention is the first, and the second one attends to the encoder.
    """
    meant = _block_influence(DecoderBlock, key, length, source=3)
    literal = _block_influence(PrintedDecoderBlock, key, length)
    yield equal("influence of later tokens, masked attention first", meant, 0.0, atol=0.0)
    yield printed(equal("influence of later tokens, masked attention second", literal, 0.0, atol=0.0))


def _block_influence(block: type, key, length, source: int = 0):
    """How much outputs of a random block change with later tokens; with `source` tokens of an encoder's output."""

    @jax.jit
    def measure(key):
        def parts(key):
            return block(8, 2, 16, key=key), *jnp.zeros((2, length, 8)), jnp.zeros((source, 8))

        model, x, y, context = drawn(parts, key, std=0.5)
        return _later(_influence(jax.vmap(lambda x: model(x, context) if source else model(x))(_changed(x, y))))

    return measure(key)
