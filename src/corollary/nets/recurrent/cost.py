r"""What it costs to generate the next token: a recurrent network against attention.

Multiplications of the matrix products, as `autodiff.multiplications` counts them in a program.
"""

from corollary._validate import whole
from corollary.catalog import implements


@implements("E05.23")
def recurrent_token_cost(units: int, inputs: int, blocks: int = 1) -> int:
    r"""$b\,m(m+n)$ multiplications for one more step, however many there were: $b=1$ Elman, 3 GRU, 4 LSTM."""
    units, inputs = whole("units", units), whole("inputs", inputs)
    return whole("blocks", blocks) * units * (units + inputs)


@implements("E05.23")
def attention_token_cost(width: int, context: int, *, cached: bool = True) -> int:
    r"""Multiplications of one self-attention layer for the next token, after which the context is $T$ tokens long.

    With the keys and values of the past at hand $4d^2+2Td$: linear in the context. Without, when all tokens go through
    the layer again, $4Td^2+2T^2d$: this one is quadratic. Queries, keys, values and the output take $d^2$ each for a
    token, scores and their average $Td$ each for a query, whatever the number of heads of the total width $d$.
    """
    d, T = whole("width", width), whole("context", context)
    return 4 * d * d + 2 * T * d if cached else T * (4 * d * d + 2 * T * d)
