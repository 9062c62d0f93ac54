import jax
import jax.numpy as jnp

from corollary.autodiff import multiplications
from corollary.nets.attention import MultiHeadAttention
from corollary.nets.recurrent import GRU, LSTM, attention_token_cost, recurrent_token_cost

KEY = jax.random.key(5)


def test_costs_are_those_of_the_programs():
    for cell, blocks in ((GRU(3, 5, key=KEY), 3), (LSTM(3, 5, key=KEY), 4)):
        assert multiplications(cell, jnp.ones(3), cell.initial()) == recurrent_token_cost(5, 3, blocks)
    attend, tokens = MultiHeadAttention(8, 2, key=KEY), jnp.ones((6, 8))
    assert multiplications(attend, tokens) == attention_token_cost(8, 6, cached=False)

    def one_more(token, keys, values):
        key, value = attend.keys_values(token)
        return attend.attend(token, jnp.concatenate([keys, key]), jnp.concatenate([values, value]))

    keys, values = attend.keys_values(tokens[:5])
    assert multiplications(one_more, tokens[:1], keys, values) == attention_token_cost(8, 6)
