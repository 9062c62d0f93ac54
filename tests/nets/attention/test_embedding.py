import jax
import numpy as np

from corollary.nets.attention import TokenEmbedding

KEY = jax.random.key(0)
TOKENS = np.array([[3, 1, 4, 1, 0, 2], [2, 0, 4, 4, 1, 3]])


def test_embedding_looks_up_and_adds_positions():
    few = TokenEmbedding(5, 4, 6, key=KEY, positions="none")
    np.testing.assert_array_equal(few(TOKENS[0][:4]), few.weight[TOKENS[0][:4]])
    many = TokenEmbedding(1030, 4, 6, key=KEY)
    tokens = np.array([1029, 3])
    np.testing.assert_array_equal(many(tokens, 2), many.weight[tokens] + many.places.table[2:])
    wave = TokenEmbedding(5, 4, 6, key=KEY, positions="sinusoidal")
    moved = wave(tokens[1:], 3) - wave.weight[3]
    np.testing.assert_allclose(moved[0, :2], [np.sin(3), np.cos(3)], rtol=1e-12)
