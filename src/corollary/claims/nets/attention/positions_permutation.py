"""Attention and the order of the tokens."""

import itertools
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.claims._drawn import randomise
from corollary.evidence import Count, Range, at_least, at_most, claim, control, equal, printed
from corollary.nets import equivariance_defect, invariance_defect, permutation_matrix, train, zeros
from corollary.nets.attention import (
    AttentionPooling,
    MultiHeadAttention,
    dot_product_attention,
    plain_attention,
    random_positions,
    shared_attention,
    sinusoidal_positions,
)
from corollary.nets.attention.block import EncoderBlock
from corollary.network import Network

TOKENS, DIM = 6, 6
#: float64 outputs of size one, with sums in another order: a few hundred roundings
ROUNDING = 1e-13


def _orders():
    return np.array(list(itertools.permutations(range(TOKENS))))


def _models(key):
    """Two heads, a block, one matrix, attention with fixed queries, and tokens."""
    plain = {"key": jax.random.key(0), "initialisation": zeros}
    models = (
        MultiHeadAttention(DIM, 2, **plain),
        EncoderBlock(DIM, 2, 2 * DIM, **plain),
        jnp.zeros((DIM, DIM)),
        AttentionPooling(DIM, 3, 2, **plain),
        jnp.zeros((TOKENS, DIM)),
    )
    return randomise(models, key, 0.5)


@claim(rows=("B10.44", "E06.06", "E06.07", "M13.37", "M13.38", "M13.53"))
def equivariance(key):
    r"""Attention moves with its tokens: permuting the input permutes the output.

    For all $X\in\mathbb R^{n\times d}$ and permutation matrices $L$, $\mathcal Z(LX)=L\mathcal Z(X)$, where
    $\mathcal Z$ is self-attention without parameters, with one matrix, with several heads, a transformer block (layer
    normalisation and feed-forward part act on each token for itself), or cross-attention with $X$ as its queries;
    because $\mathrm{softmax}(LAL^\top)=L\,\mathrm{softmax}(A)L^\top$ along rows. The mean of the outputs is invariant,
    and so is cross-attention under permutations of its context. Here all 720 permutations of six tokens are tried.
    A causal mask or positional encodings break it; the identity of the softmax does not hold for other orthogonal
    matrices.
    """
    positions = sinusoidal_positions(TOKENS, DIM)
    orders = _orders()  # the identity is the first

    @jax.jit
    def measure(key, orders):
        heads, block, u, _, x = _models(key)
        logits, square = jax.random.normal(jax.random.fold_in(key, 1), (2, TOKENS, TOKENS))
        maps = {
            "without parameters": plain_attention,
            "with one matrix": lambda x: shared_attention(x, u),
            "two heads": heads,
            "transformer block": block,
            "cross-attention, its queries": lambda a: heads(a, x),
            "cross-attention, its context": lambda context: heads(x, context),
            "two heads, causal mask": lambda x: heads(x, causal=True),
            "transformer block, with positions": lambda x: block(x + positions),
        }

        def one(order):
            L = permutation_matrix(order)
            swapped = jax.nn.softmax(L @ logits @ L.T) - L @ jax.nn.softmax(logits) @ L.T
            return {name: f(x[order]) for name, f in maps.items()}, jnp.max(jnp.abs(swapped))

        outputs, swapped = jax.vmap(one)(orders)
        G = jnp.linalg.qr(square)[0]
        rotated = jnp.max(jnp.abs(jax.nn.softmax(G @ logits @ G.T) - G @ jax.nn.softmax(logits) @ G.T))
        # (13.16) as one product, with the transpose that the display of the lemma lacks
        q, k, v, o = (layer.weight.T for layer in (heads.query, heads.key, heads.value, heads.output))
        half = DIM // 2
        display = sum(
            o[cut].T @ v[:, cut].T @ x.T @ jax.nn.softmax((x @ q[:, cut]) @ (x @ k[:, cut]).T / half**0.5).T
            for cut in (slice(0, half), slice(half, DIM))
        )
        return outputs, swapped, rotated, display.T, equivariance_defect(heads, x, orders[-1])

    outputs, swapped, rotated, display, last = measure(key, orders)
    outputs = {name: np.asarray(out) for name, out in outputs.items()}
    moved = {name: np.abs(out - out[0][orders]).max((1, 2)) for name, out in outputs.items()}
    for name in ("without parameters", "with one matrix", "two heads", "transformer block"):
        yield at_most(f"{name}: equivariance defect", moved[name], 0.0, atol=ROUNDING, along="permutation")
    name = "cross-attention, its queries"
    yield at_most(f"{name}: equivariance defect", moved[name], 0.0, atol=ROUNDING, along="permutation")
    name = "cross-attention, its context"
    kept = np.abs(outputs[name] - outputs[name][0]).max((1, 2))
    yield at_most(f"{name}: invariance defect", kept, 0.0, atol=ROUNDING, along="permutation")
    mean = np.abs(outputs["two heads"].mean(1) - outputs["two heads"][0].mean(0)).max(1)
    yield at_most("mean of the outputs: invariance defect", mean, 0.0, atol=ROUNDING, along="permutation")
    yield at_most("softmax of permuted logits: defect", swapped, 0.0, atol=ROUNDING, along="permutation")
    yield equal("the layer, against its formula as one product", outputs["two heads"][0], display)
    yield at_most("two heads: defect of the reversal", last, 0.0, atol=ROUNDING)
    broken = {
        "two heads, causal mask": "there is no mask: here two heads with a causal one",
        "transformer block, with positions": "there are no positions: here a block with them",
    }
    for name, premise in broken.items():
        yield control(premise, at_most("equivariance defect", moved[name], 0.0, atol=ROUNDING, along="permutation"))
    yield control(
        "the matrix is a permutation: here orthogonal",
        at_most("softmax of rotated logits: defect", rotated, 0.0, atol=ROUNDING),
    )


@claim(
    rows=("B10.44", "E06.07"),
    erratum="Attention and transformer blocks are equivariant, not invariant: outputs are ordered as the tokens are.",
)
def printed_invariance(key):
    r"""A transformer without positional encodings as printed: invariant under permutations.

    B: "the Transformer architecture itself is permutation-invariant"; E: attention "is permutation equivariant, which
    means that the order of input tokens does not influence the output". That would be $\mathcal Z(LX)=\mathcal Z(X)$;
    what holds is $\mathcal Z(LX)=L\mathcal Z(X)$.
    """

    @jax.jit
    def measure(key):
        heads, block, _, _, x = _models(key)
        order = np.roll(np.arange(TOKENS), 1)
        return [jnp.stack([f(m, x, order) for m in (heads, block)]) for f in (equivariance_defect, invariance_defect)]

    equivariant, invariant = measure(key)
    yield at_most("two heads, a block: equivariance defect", equivariant, 0.0, atol=ROUNDING)
    for name, defect in zip(("two heads", "a block"), invariant, strict=True):
        yield printed(at_most(f"{name}: invariance defect", defect, 0.0, atol=ROUNDING))


@claim(
    rows=("M13.38",),
    erratum="The displayed operator multiplies by the softmax where its transpose is needed: columns do not sum to 1.",
)
def printed_operator(key):
    r"""Self-attention as displayed before Lemma 13.4.

    M writes $\mathcal Z(X)=W_o^\top W_v^\top X^\top\,\mathrm{softmax}(XW_qW_k^\top X^\top/\sqrt{d_k})$, with the
    softmax along rows as in (13.15), for the operator whose column $i$ is
    $z_i=W_o^\top\sum_ja_{ij}V(x_j)$ of (13.16). That is
    $W_o^\top W_v^\top X^\top A^\top$; the printed operator is equivariant too, but another one.
    """

    @jax.jit
    def measure(key):
        blank = MultiHeadAttention(DIM, 1, key=key, initialisation=zeros)
        model, x = randomise((blank, jnp.zeros((TOKENS, DIM))), key, 0.5)
        q, k, v, o = (layer.weight.T for layer in (model.query, model.key, model.value, model.output))
        weights = jax.nn.softmax((x @ q) @ (x @ k).T / DIM**0.5, axis=1)
        return o.T @ v.T @ x.T @ weights, o.T @ v.T @ x.T @ weights.T, model(x).T

    literal, meant, layer = measure(key)
    yield equal("columns of the display with the transpose, against the layer", meant, layer)
    yield printed(equal("columns of the display, against the layer", literal, layer))


@claim(rows=("M13.36", "M13.54"))
def fixed_queries_are_invariant(key):
    r"""Attention whose queries do not depend on the input is invariant under permutations of it.

    With $K=XW_k$, $V=XW_v$ and fixed $Q_0$, $\mathrm{softmax}(Q_0K^\top/\sqrt{d_k})VW_o$ is the same for $LX$ as for
    $X$: the softmax commutes with the permutation of the keys, and $L^\top L=I$. The same holds for the operator that
    M displays, $W_o^\top W_v^\top X^\top\mathrm{softmax}(XW_qW_k^\top/\sqrt{d_k})$ (where the names of $W_q$ and $W_k$
    are interchanged), whether the softmax runs over the tokens, as it must to give means of values, or over the
    queries. So a set, or the patches of an image, may be given in any order. Self-attention is not invariant.
    """
    orders = _orders()

    @jax.jit
    def measure(key, orders):
        heads, _, _, pooling, x = _models(key)
        names = ("query", "key", "value", "output")
        q, k, v, o = (getattr(pooling.attention, name).weight.T for name in names)

        def display(axis):
            # the keys are x k, and the fixed queries stand for the printed W_k
            queries = pooling.seeds @ q
            return lambda x: o.T @ v.T @ x.T @ jax.nn.softmax(x @ k @ queries.T / DIM**0.5, axis=axis)

        maps = (pooling, display(0), display(1), heads)
        return jax.vmap(lambda order: jnp.stack([invariance_defect(f, x, order) for f in maps]))(orders), jnp.sum(
            pooling.weights(x), axis=-1
        )

    defects, sums = measure(key, orders)
    names = ["attention with fixed queries", "as displayed, softmax over the tokens", "as displayed, over the queries"]
    for name, defect in zip(names, defects.T[:3], strict=True):
        yield at_most(f"{name}: invariance defect", defect, 0.0, atol=ROUNDING, along="permutation")
    yield equal("sum of the weights of a query", sums, 1.0)
    yield control(
        "the queries are fixed: here they come from the tokens",
        at_most("invariance defect", defects[:, 3], 0.0, atol=ROUNDING),
    )


@claim(rows=("B10.44", "B10.46", "M13.43"))
def order_needs_positions(
    key,
    *,
    tokens: Annotated[int, Range(2, 8)] = 6,
    pairs: Annotated[int, Range(4, 16)] = 4,
    runs: Count = 3,
    steps: Count = 400,
):
    r"""Without positional encodings a pooled transformer cannot tell which of two tokens comes first; with them it can.

    Among $T$ tokens are one $A$ and one $B$; the label says whether $A$ comes first. Exchanging the two changes the
    label and permutes the tokens. A network whose pooled output is invariant under permutations gives both the same
    probability $p$: its mean cross-entropy is at least $-\frac12(\ln p+\ln(1-p))\ge\ln2$ whatever its parameters
    are, and exactly half of its answers are right. With sinusoidal, random or learned positional encodings added to the
    tokens the same network learns the task.
    """
    dim = 2 * pairs
    places = np.array([(a, b) for a in range(tokens) for b in range(tokens) if a != b])
    sentences = np.full((len(places), tokens), 2)
    for row, (a, b) in enumerate(places):
        sentences[row, a], sentences[row, b] = 0, 1
    first = (places[:, 0] < places[:, 1]).astype(float)

    def logit(params, words):
        positions = jax.lax.stop_gradient(params["fixed"]) + jax.lax.stop_gradient(params["gate"]) * params["learned"]
        x = params["tokens"][words] + positions
        q, k, v = (x @ w for w in params["attention"])
        x = x + dot_product_attention(q, k, v)
        return jnp.tanh(x @ params["hidden"]).mean(0) @ params["out"]

    shapes = {
        "learned": (tokens, dim),
        "tokens": (3, dim),
        "attention": (3, dim, dim),
        "hidden": (dim, 2 * dim),
        "out": (2 * dim,),
    }

    @jax.jit
    def measure(key):
        def one(key, kind):
            start = randomise({name: jnp.zeros(shape) for name, shape in shapes.items()}, key, 0.5)
            noise = random_positions(tokens, dim, key=jax.random.fold_in(key, 1))
            nothing = jnp.zeros_like(noise)
            fixed = jnp.stack([nothing, sinusoidal_positions(tokens, dim), noise, nothing])[kind]
            start = {"fixed": fixed, "gate": (kind == 3).astype(float), **start}
            data = jnp.asarray(sentences), jnp.asarray(first)
            fitted = train(Network(logit, start), "cross_entropy", data, optax.adam(0.02), steps=steps)
            return fitted.losses, jax.vmap(fitted.network)(data[0])

        keys = jax.random.split(key, runs)
        return jax.vmap(jax.vmap(one, (0, None)), (None, 0))(keys, jnp.arange(4))

    losses, answers = measure(key)
    # any threshold would do, but at 0 the logits of the first network, which end as 1e-10, are decided by rounding
    right = np.mean((np.asarray(answers) > 0.01) == (first > 0.5), axis=-1)
    swapped = np.array([np.flatnonzero((places == pair[::-1]).all(1))[0] for pair in places])
    yield at_least("no positions: loss at every step", losses[0], np.log(2), along="step")
    yield equal("no positions: logit after exchanging A and B", answers[0][:, swapped], answers[0], atol=1e-11)
    yield equal("no positions: share of right answers", right[0], 0.5)
    for kind, name in enumerate(["sinusoidal", "random", "learned"], start=1):
        # a local minimum may leave one of the sentences wrong; an invariant network has half of them wrong
        yield at_least(f"{name} positions: share of right answers", right[kind], 0.9)
        yield control(
            f"there are no positions: here {name} ones",
            at_least("loss at every step", losses[kind], np.log(2), along="step"),
        )
