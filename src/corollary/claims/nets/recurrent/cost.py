"""What the next token costs."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.autodiff import multiplications
from corollary.evidence import Size, claim, control, equal, rate
from corollary.nets.attention import MultiHeadAttention
from corollary.nets.recurrent import GRU, LSTM, attention_token_cost, recurrent_token_cost


@claim(rows=("E05.23",))
def next_token(key, *, width: Size = 8, heads: Size = 2):
    r"""The next token costs a recurrent network the same however long the context is; attention pays for all of it.

    A recurrent network has its whole past in its state: $b\,m(m+n)$ multiplications a step. Self-attention of width
    $d$ takes $4d^2+2Td$ with the keys and values of the past at hand, which grows with the context $T$, and
    $T(4d^2+2Td)$ without, when it sends all tokens through the layer again: only the latter is quadratic. All are
    counted in the programs that run.
    """
    contexts = 2 ** np.arange(12, 17)
    attend = MultiHeadAttention(width, heads, key=key)

    def count(f, *shapes):
        return multiplications(f, *(jax.ShapeDtypeStruct(s, float) for s in shapes))

    def one_more(token, keys, values):
        own_key, own_value = attend.keys_values(token)
        return attend.attend(token, jnp.concatenate([keys, own_key]), jnp.concatenate([values, own_value]))

    past = lambda T: (T - 1, heads, width // heads)  # noqa: E731
    cached = [count(one_more, (1, width), past(int(T)), past(int(T))) for T in contexts]
    again = [count(attend, (int(T), width)) for T in contexts]
    cells = {"GRU": (GRU(3, width, key=key), 3), "LSTM": (LSTM(3, width, key=key), 4)}
    steps = [multiplications(cell, jnp.ones(3), cell.initial()) for cell, _ in cells.values()]
    yield equal("GRU and LSTM, a step", steps, [recurrent_token_cost(width, 3, b) for _, b in cells.values()])
    yield equal("attention with a cache", cached, [attention_token_cost(width, int(T)) for T in contexts])
    yield equal("attention without", again, [attention_token_cost(width, int(T), cached=False) for T in contexts])
    # at contexts beyond 64 d the terms of lower order are below 2 d / T, three percent
    yield rate("attention with a cache", contexts, cached, 1.0, tolerance=0.05, along="context")
    yield rate("attention without", contexts, again, 2.0, tolerance=0.05, along="context")
    yield control(
        "keys and values of the past are at hand: here all tokens are sent again",
        rate("attention", contexts, again, 1.0, tolerance=0.05, along="context"),
    )
