"""The tokenisation pipeline: text, made uniform, cut into words, cut into tokens, numbered.

```python
tokeniser = Tokeniser.train(BPE, shakespeare(), 1000)
ids = tokeniser.encode("Like a fish out of water")
tokeniser.decode(ids)                                  # the text again
tokeniser.tokens("Like a fish out of water")           # how it was cut
```
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from jaxtyping import ArrayLike, Int

from corollary._validate import whole
from corollary.catalog import implements
from corollary.language._utf8 import check_ids, check_text, check_words
from corollary.language.splitting import unchanged, words

UNKNOWN = "[UNK]"


@implements("B10.56")
@dataclass(frozen=True)
class Tokeniser:
    """A text as token ids, and back.

    `model` cuts one word into tokens: `BPE`, `WordPiece`, `Unigram`, `Whole`, or anything with their `ids(word)`,
    `text(ids)`, `name(id)` and length. `decode(encode(text)) == normalise(text)` for every text whatever, if `split`
    loses nothing (`words`, `characters`, `uncut`) and the model knows no unknown token.
    """

    model: Any
    normalise: Callable[[str], str] = unchanged
    split: Callable[[str], list[str]] = words

    @classmethod
    def train(
        cls,
        model: type,
        text: str,
        size: int,
        *,
        normalise: Callable[[str], str] = unchanged,
        split: Callable[[str], list[str]] = words,
        **options: Any,
    ) -> "Tokeniser":
        """Learn a vocabulary of `size` tokens from `text`; `options` are those of `model.train`.

        >>> tokeniser = Tokeniser.train(BPE, "low lower lowest", 260)
        >>> tokeniser.decode(tokeniser.encode("lowest low"))
        'lowest low'
        """
        if not hasattr(model, "train"):
            raise TypeError(f"model must be a class with a method train, got {model!r}.")
        counts = Counter(split(normalise(check_text("text", text))))
        if not counts:
            raise ValueError("text must not be empty: there is nothing to learn from.")
        return cls(model.train(counts, size, **options), normalise, split)

    def __len__(self) -> int:
        return len(self.model)

    def encode(self, text: str) -> np.ndarray:
        """The token ids of a text. Every word is cut once, however often it occurs."""
        parts = self.split(self.normalise(check_text("text", text)))
        table = {word: self.model.ids(word) for word in dict.fromkeys(parts)}
        return np.fromiter(chain.from_iterable(map(table.__getitem__, parts)), np.int32)

    def decode(self, ids: Int[ArrayLike, "n"] | Sequence[int]) -> str:
        """The text of token ids."""
        return self.model.text(ids)

    def tokens(self, text: str) -> list[str]:
        """The tokens of a text in readable form."""
        return [self.model.name(i) for i in self.encode(text).tolist()]


@implements("B10.56")
@dataclass(frozen=True)
class Whole:
    """Every word is one token: with `split=words` a word tokeniser, with `split=characters` one of characters.

    Token 0 stands for all words that were not among those learnt from.
    """

    vocabulary: tuple[str, ...]

    @classmethod
    def train(cls, words: Mapping[str, int], size: int) -> "Whole":
        """The unknown token and the `size - 1` most frequent words; of equally frequent ones the smaller first."""
        table, size = check_words(words), whole("size", size, 1)
        ranked = sorted(table, key=lambda word: (-table[word], word))
        return cls((UNKNOWN, *ranked[: size - 1]))

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.vocabulary) if i > 0}

    def __len__(self) -> int:
        return len(self.vocabulary)

    def name(self, token: int) -> str:
        """The word of a token."""
        return self.vocabulary[token]

    def ids(self, word: str) -> list[int]:
        """The one token of a word."""
        return [self._ids.get(check_text("word", word), 0)]

    def text(self, ids: Int[ArrayLike, "..."]) -> str:
        """The text of tokens."""
        return "".join(self.vocabulary[i] for i in check_ids(ids, len(self)))
