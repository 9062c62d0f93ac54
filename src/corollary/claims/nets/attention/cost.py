"""What transformers cost beside recurrent networks."""

import equinox as eqx
import jax
import numpy as np

from corollary.autodiff import RNN, multiplications
from corollary.evidence import Size, claim, control, equal, rate
from corollary.nets.attention import (
    Encoder,
    MultiHeadAttention,
    attention_cost,
    crossover_length,
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
