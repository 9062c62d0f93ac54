"""Tokens with their embeddings: Listing 10.5 for any tokeniser, and for GPT-2 where its weights are at hand."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import ArrayLike, Float

from corollary.catalog import implements
from corollary.language._utf8 import check_text
from corollary.language.tokeniser import Tokeniser

SENTENCE = "Like a fish out of water"


class TokenRow(NamedTuple):
    """One line of the table: a token, its number, the norm of its embedding and the first entries of it."""

    token: str
    id: int
    norm: float
    vector: np.ndarray


@implements("B10.60")
def book_gpt2_table() -> list[TokenRow]:
    """Table 10.2 as printed: GPT-2's tokens of "Like a fish out of water". The space before a token is not shown."""
    rows = [
        ("Like", 7594, 3.2995, [-0.166, -0.080, 0.086, -0.043, -0.061, -0.129, -0.217, -0.110]),
        ("a", 257, 2.5727, [-0.051, 0.006, 0.047, -0.059, -0.063, -0.030, -0.272, 0.015]),
        ("fish", 5916, 3.2591, [0.027, 0.100, 0.066, 0.051, -0.156, -0.080, -0.364, -0.158]),
        ("out", 503, 2.7112, [-0.048, -0.044, 0.034, -0.141, 0.091, -0.064, -0.282, -0.014]),
        ("of", 286, 2.5936, [-0.057, 0.018, 0.033, 0.041, 0.012, -0.040, -0.253, 0.002]),
        ("water", 1660, 3.0460, [0.065, 0.020, 0.023, 0.141, -0.052, -0.019, -0.331, -0.144]),
    ]
    return [TokenRow(token, number, norm, np.array(vector)) for token, number, norm, vector in rows]


@implements("B10.60")
def token_table(
    text: str, tokeniser: Tokeniser, embedding: Float[ArrayLike, "..."], *, entries: int = 8
) -> list[TokenRow]:
    """The tokens of `text` with the norms and the first entries of their rows of `embedding`."""
    vectors = np.asarray(embedding)
    if vectors.ndim != 2 or vectors.shape[0] < len(tokeniser):
        raise ValueError(f"embedding must have a row for each of {len(tokeniser)} tokens, got shape {vectors.shape}.")
    ids = tokeniser.encode(check_text("text", text)).tolist()
    names = tokeniser.tokens(text)
    return [
        TokenRow(name, i, float(np.linalg.norm(vectors[i])), vectors[i, :entries])
        for name, i in zip(names, ids, strict=True)
    ]


def gpt2_token_table(text: str = SENTENCE) -> list[TokenRow]:
    """The table of GPT-2 itself. Needs the package `transformers` and the weights of GPT-2 in its cache."""
    try:
        from transformers import GPT2Model, GPT2Tokenizer

        cut = GPT2Tokenizer.from_pretrained("gpt2", local_files_only=True)
        weights = GPT2Model.from_pretrained("gpt2", local_files_only=True).wte.weight
    except (ImportError, OSError) as error:
        raise RuntimeError("GPT-2 needs the package transformers and its weights in the local cache.") from error
    return token_table(text, _Pretrained(cut), weights.detach().numpy())


class _Pretrained:
    def __init__(self, cut):
        self.cut = cut

    def __len__(self):
        return len(self.cut)

    def encode(self, text):
        return np.asarray(self.cut(text, add_special_tokens=False)["input_ids"])

    def tokens(self, text):
        return self.cut.convert_ids_to_tokens(self.encode(text).tolist())
