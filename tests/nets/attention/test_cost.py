import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from corollary.nets.attention import (
    Encoder,
    EncoderBlock,
    attention_cost,
    block_parameters,
    crossover_length,
    epoch_cost,
    recurrent_cost,
    sequential_steps,
    transformer_cost,
    transformer_parameters,
)

KEY = jax.random.key(0)


def test_parameters_of_the_paper():
    block = eqx.filter_eval_shape(lambda: EncoderBlock(512, 8, 2048, key=KEY, bias="hidden"))
    assert sum(a.size for a in jax.tree.leaves(block) if hasattr(a, "size")) == 3_149_824
    assert block_parameters(512, 8, 64, 64, 2048) == 3_149_824


@pytest.mark.parametrize("bias", ["none", "all"])
def test_parameters_are_counted(bias):
    encoder = eqx.filter_eval_shape(lambda: Encoder(6, 2, 3, 5, key=KEY, bias=bias))
    counted = sum(a.size for a in jax.tree.leaves(encoder) if hasattr(a, "size"))
    assert counted == transformer_parameters(6, 3, 5, bias=bias == "all")


def test_attention_takes_over_at_the_crossover():
    d, f = 6, 5
    T = crossover_length(d, f)
    cost = transformer_cost(T, d, 2, f)
    assert cost.attention == cost.projections + cost.network == cost.total // 2
    assert attention_cost(T, 2, 3, 3)[0] * 2 == cost.attention


def test_sequential_steps_of_nested_loops():
    def inner(c, x):
        return jax.lax.scan(lambda a, b: (a + b, a), c, x)

    def f(x):
        return jax.lax.scan(inner, 0.0, x)[0] + jax.lax.scan(lambda a, b: (a + b, None), 0.0, x[0])[0]

    assert sequential_steps(f, jnp.ones((3, 4))) == 3 * 4 + 4
    assert sequential_steps(jnp.sin, 1.0) == 0
    assert recurrent_cost(7, 3, 2) == (7 * 3 * 5, 21)


def test_refused():
    with pytest.raises(TypeError, match="f must be a function"):
        sequential_steps(3)
    with pytest.raises(ValueError, match="while loop cannot be counted"):
        sequential_steps(lambda x: jax.lax.while_loop(lambda y: y < 3, lambda y: y + 1, x), 0)
    with pytest.raises(ValueError, match="length must be at least 1"):
        transformer_cost(0, 1, 1, 1)


def test_an_epoch_in_padded_sections():
    # three projections of 4 x 6 x 6, logits and means of 4 x 4 x 6, in two layers; 9 tokens are three sections of 4
    assert epoch_cost(9, 4, 6, 2) == 3 * 2 * (3 * 4 * 6 * 6 + 2 * 4 * 4 * 6)
    with pytest.raises(ValueError, match="depth must be at least 1"):
        epoch_cost(9, 4, 6, 0)
