import numpy as np
import pytest

from corollary.language import BPE, Tokeniser, book_gpt2_table, gpt2_token_table, token_table

SENTENCE = "Like a fish out of water"


def test_printed_table():
    rows = book_gpt2_table()
    assert " ".join(row.token for row in rows) == SENTENCE
    assert [row.id for row in rows] == [7594, 257, 5916, 503, 286, 1660]
    for row in rows:
        assert np.linalg.norm(row.vector) < row.norm


def test_table_of_our_own():
    tokeniser = Tokeniser.train(BPE, f"{SENTENCE}, like fish in the water", 270)
    embedding = np.random.default_rng(0).normal(size=(len(tokeniser), 12))
    rows = token_table(SENTENCE, tokeniser, embedding)
    assert "".join(row.token for row in rows).replace("Ġ", " ") == SENTENCE
    for row in rows:
        assert tokeniser.model.name(row.id) == row.token
        np.testing.assert_allclose(row.norm**2, np.sum(embedding[row.id] ** 2))
        np.testing.assert_array_equal(row.vector, embedding[row.id, :8])
    with pytest.raises(ValueError, match="embedding must have a row for each of 270 tokens"):
        token_table(SENTENCE, tokeniser, embedding[:5])


def test_gpt2_itself():
    try:
        rows = gpt2_token_table()
    except RuntimeError as error:
        pytest.skip(str(error))
    for row, printed in zip(rows, book_gpt2_table(), strict=True):
        assert (row.token.removeprefix("Ġ"), row.id) == (printed.token, printed.id)
        np.testing.assert_allclose(row.norm, printed.norm, atol=1e-4)
        np.testing.assert_allclose(row.vector, printed.vector, atol=5e-4)
