"""What transformers cost beside recurrent networks."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.autodiff import RNN, multiplications
from corollary.evidence import Size, at_most, claim, control, equal, rate
from corollary.nets.attention import (
    Encoder,
    MultiHeadAttention,
    attention_cost,
    crossover_length,
    dot_product_attention,
    epoch_cost,
    recurrent_cost,
    sequential_steps,
    transformer_cost,
    transformer_parameters,
)


@claim(rows=("E06.13", "M13.46"))
def counted(key, *, width: Size = 32, hidden: Size = 64, depth: Size = 3, heads: Size = 4):
    r"""A transformer costs the square of the length, but no waiting.

    With $Hd_k=Hd_v=d$ an encoder of $N$ blocks takes $N(4Td^2+2T^2d+2Td\,d_{ff})$ multiplications on $T$ tokens and has
    $N(4d^2+2d\,d_{ff}+4d)$ parameters without biases. Attention takes $n^2(d_k+d_v)H$ of them in each layer and stores
    $n^2H$ weights, which is more than all the rest together from $T=2d+d_{ff}$ on. A recurrent layer takes $nN(N+d)$
    and stores $nN$ states, but one after the other: $n$ steps, where the transformer takes its depth. The counts are
    read off the programs, at every length.
    """
    # shapes are enough: nothing is computed
    encoder = eqx.filter_eval_shape(lambda key: Encoder(width, heads, depth, hidden, key=key, bias="none"), key)
    rnn = eqx.filter_eval_shape(lambda key: RNN(width, hidden, 1, key=key), key)
    cross = crossover_length(width, hidden)
    lengths = np.array([64, 128, 256, 512, 1024, 2048])
    attention = eqx.filter_eval_shape(lambda e: jax.tree.map(lambda a: a[0], e.stack.blocks.attention), encoder)

    def call(model, x):
        return model(x)

    def tokens(n):
        return jax.ShapeDtypeStruct((int(n), width), float)

    formulas = [transformer_cost(int(n), width, depth, hidden) for n in lengths]
    found = np.array([multiplications(call, encoder, tokens(n)) for n in lengths])
    yield equal(
        "multiplications of the encoder", found, [c.total for c in formulas], rtol=0.0, x=lengths, along="length"
    )
    numbers = sum(a.size for a in jax.tree.leaves(eqx.filter(encoder, lambda a: hasattr(a, "dtype"))))
    yield equal("parameters", numbers, transformer_parameters(width, depth, hidden), rtol=0.0)
    size = width // heads
    stored = np.array([jax.eval_shape(MultiHeadAttention.weights, attention, tokens(n)).size for n in lengths])
    weights = [attention_cost(int(n), heads, size, size)[1] for n in lengths]
    yield equal("weights that one layer stores", stored, weights, rtol=0.0, x=lengths, along="length")
    four = 4 * lengths * width**2
    inside = np.array([multiplications(call, attention, tokens(n)) for n in lengths]) - four
    products = [attention_cost(int(n), heads, size, size)[0] for n in lengths]
    yield equal("multiplications inside attention", inside, products, rtol=0.0, x=lengths, along="length")
    yield equal(
        "attention's share where it takes over",
        depth * 2 * cross**2 * width / multiplications(call, encoder, tokens(cross)),
        0.5,
    )
    states = np.array([jax.eval_shape(RNN.hidden, rnn, tokens(n)).size for n in lengths])
    steps = np.array([multiplications(RNN.hidden, rnn, tokens(n)) for n in lengths])
    predicted = np.array([recurrent_cost(int(n), hidden, width) for n in lengths])
    yield equal("multiplications and states, recurrent", np.stack([steps, states], 1), predicted, rtol=0.0)
    yield rate("memory of attention", lengths, stored, 2.0, tolerance=0.01, along="length")
    yield rate("memory of a recurrent layer", lengths, states, 1.0, tolerance=0.01, along="length")
    turns = [[sequential_steps(f, m, tokens(n)) for n in lengths] for f, m in ((call, encoder), (RNN.hidden, rnn))]
    yield equal("steps that wait for each other", turns, np.stack([np.full(len(lengths), depth), lengths]), rtol=0.0)
    wide = eqx.filter_eval_shape(
        lambda key: Encoder(width, heads, depth, hidden, key=key, bias="none", size=2 * size), key
    )
    yield control(
        "the heads have d numbers together: here their queries and keys have 2d",
        equal(
            "multiplications of the encoder",
            [multiplications(call, wide, tokens(n)) for n in lengths],
            [c.total for c in formulas],
            rtol=0.0,
            x=lengths,
            along="length",
        ),
    )


@claim(rows=("T15.07", "T15.08"))
def an_epoch(key, *, depth: Size = 3, sections: Size = 2):
    r"""Time for an epoch: linear in the text and in the layers, and between linear and quadratic in the width.

    A transformer of $N$ layers $X\mapsto V\,\mathrm{softmax}(K^\top Q/\sqrt d)$ with $Q$, $K$, $V$ linear in $X$ reads
    $M$ tokens in sections of length $L$. It takes $MN(3d^2+2Ld)$ multiplications, read off the program, and at most
    three times as many with gradients: $O(MN(d^2+Ld))$. The exponent of $d$ goes from 1 ($d\ll L$) to 2, that of $L$
    from 0 to 1 ($L\gg d$), and half of the work is attention's at $L=\frac32d$. With an output projection, as
    transformers mostly have one, it is more.
    """

    def network(params, x, project=False):
        def layer(x, w):
            out = dot_product_attention(x @ w[0], x @ w[1], x @ w[2])
            return (out @ w[3] if project else out), None

        return jax.vmap(lambda x: jax.lax.scan(layer, x, params)[0])(x)

    def count(length, width, *, layers=depth, sections=sections, f=network):
        params = jax.ShapeDtypeStruct((layers, 4, width, width), float)
        return multiplications(f, params, jax.ShapeDtypeStruct((sections, length, width), float))

    def slopes(params, x):
        return jax.value_and_grad(lambda p: jnp.sum(network(p, x)))(params)

    sizes = [(L, d) for L in (4, 16, 64, 256) for d in (4, 16, 64, 256)]
    found = np.array([count(L, d) for L, d in sizes])
    formula = [epoch_cost(sections * L, L, d, depth) for L, d in sizes]
    yield equal("multiplications, every length and width", found, formula, rtol=0.0)
    both = np.array([count(L, d, f=slopes) for L, d in sizes])
    yield at_most("multiplications with gradients", both, 3 * np.array(formula))
    times = np.arange(1, 6)
    more = [[count(16, 8, sections=int(m)) for m in times], [count(16, 8, layers=int(m)) for m in times]]
    # the tokens of m sections, and m layers
    alone = [epoch_cost(16, 16, 8, depth), epoch_cost(16 * sections, 16, 8, 1)]
    yield equal("times the text, times the layers", more, np.outer(alone, times), rtol=0.0)
    wide, far = 2 ** np.arange(9, 13), 2 ** np.arange(13, 17)
    yield rate(
        "width, far above the length", wide, [count(8, int(d)) for d in wide], 2.0, tolerance=0.02, along="width"
    )
    yield rate("width, far below the length", wide, [count(2**20, int(d)) for d in wide], 1.0, tolerance=0.02)
    yield rate("length, a token, far above", far, [count(int(L), 64) / L for L in far], 1.0, tolerance=0.02)
    yield rate("length, a token, far below", wide, [count(int(L), 2**20) / L for L in wide], 0.0, tolerance=0.02)
    projections = [3 * sections * depth * L * d**2 for L, d in ((24, 16), (96, 64))]
    yield equal("share of the projections at L = 3d/2", projections / np.array([count(24, 16), count(96, 64)]), 0.5)
    yield control(
        "a layer has three projections: here also one of its output",
        equal(
            "multiplications, every length and width",
            [count(L, d, f=lambda p, x: network(p, x, project=True)) for L, d in sizes],
            formula,
            rtol=0.0,
        ),
    )
