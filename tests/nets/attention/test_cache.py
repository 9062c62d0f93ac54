"""What a decoder keeps of the tokens it has seen."""

import jax
import jax.numpy as jnp
import pytest

from corollary.nets.attention import Encoder
from corollary.nets.attention.cache import check_room, empty_cache

STACK = Encoder(6, 2, 3, key=jax.random.key(0)).stack


def test_an_empty_cache_has_a_row_for_every_block_token_and_head():
    cache = empty_cache(STACK, 5)
    assert cache.keys.shape == cache.values.shape == (3, 5, 2, 3)
    assert cache.keys.dtype == STACK.blocks.attention.key.weight.dtype
    assert not cache.keys.any()
    assert not cache.values.any()
    assert int(cache.position) == 0


def test_the_last_place_may_be_filled_and_no_other():
    cache = empty_cache(STACK, 2)
    check_room(cache._replace(position=jnp.asarray(1)))
    with pytest.raises(ValueError, match="all 2 places are filled"):
        check_room(cache._replace(position=jnp.asarray(2)))
    # inside a trace the position is not known, so nothing is refused
    jax.jit(lambda position: check_room(cache._replace(position=position)))(jnp.asarray(2))


def test_a_cache_for_no_token_is_refused():
    with pytest.raises(ValueError, match="length must be at least 1"):
        empty_cache(STACK, 0)
