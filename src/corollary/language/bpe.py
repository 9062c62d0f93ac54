"""Byte-pair encoding: the most frequent pair of neighbours becomes a token, again and again.

The alphabet is the 256 bytes in GPT-2's order, so that every text has an encoding and no token is unknown.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from jaxtyping import ArrayLike, Int

from corollary._validate import whole
from corollary.catalog import implements
from corollary.language._merging import Corpus, Pair
from corollary.language._utf8 import ORDER, check_ids, check_text, check_words, from_utf8, shown, utf8

_POSITION = {byte: i for i, byte in enumerate(ORDER)}


@implements("B10.57")
@dataclass(frozen=True)
class BPE:
    """Merges of pairs of tokens, in the order in which they were learnt.

    Token 0 to 255 are the bytes; every merge adds the two tokens put together, unless that is a token already.
    """

    merges: tuple[Pair, ...]

    def __post_init__(self):
        known = 256  # no merge can add more than one
        for i, (a, b) in enumerate(self.merges):
            if not (0 <= a < known and 0 <= b < known):
                raise ValueError(f"merges must join tokens that already exist, got {(a, b)} at index {i}.")
            known += 1

    @classmethod
    def train(cls, words: Mapping[str, int], size: int, *, least: int = 1) -> "BPE":
        """Learn a vocabulary of `size` tokens from words and how often each occurs.

        Of pairs that are equally frequent the one with the smaller tokens is merged first; none that occurs less
        than `least` times is. The vocabulary is smaller than `size` when all pairs are merged.
        """
        table, size, least = check_words(words), whole("size", size, 256), whole("least", least, 1)
        corpus = Corpus([[_POSITION[b] for b in utf8(word)] for word in table], list(table.values()))
        tokens = {bytes([b]): i for i, b in enumerate(ORDER)}
        spelled, merges = list(tokens), []
        queue = [(-count, pair) for pair, count in corpus.pairs.items()]
        heapq.heapify(queue)
        while queue and len(tokens) < size:
            count, pair = heapq.heappop(queue)
            if -count != corpus.pairs[pair]:  # its count has changed since; the changed one is in the queue too
                continue
            if -count < least:
                break
            token = spelled[pair[0]] + spelled[pair[1]]
            if token not in tokens:
                tokens[token] = len(tokens)
                spelled.append(token)
            merges.append(pair)
            for changed in corpus.merge(pair, tokens[token])[0]:
                if corpus.pairs[changed] > 0:
                    heapq.heappush(queue, (-corpus.pairs[changed], changed))
        return cls(tuple(merges))

    @cached_property
    def vocabulary(self) -> tuple[bytes, ...]:
        """The bytes of every token."""
        return tuple(self._tokens)

    @cached_property
    def _tokens(self) -> dict[bytes, int]:
        tokens = {bytes([b]): i for i, b in enumerate(ORDER)}
        spelled = list(tokens)
        for a, b in self.merges:
            token = spelled[a] + spelled[b]
            if token not in tokens:
                tokens[token] = len(tokens)
                spelled.append(token)
        return tokens

    @cached_property
    def _ranks(self) -> dict[Pair, tuple[int, int]]:
        vocabulary, ids, ranks = self.vocabulary, self._tokens, {}
        for rank, (a, b) in enumerate(self.merges):
            ranks.setdefault((a, b), (rank, ids[vocabulary[a] + vocabulary[b]]))
        return ranks

    def __len__(self) -> int:
        return len(self.vocabulary)

    def name(self, token: int) -> str:
        """A token as GPT-2 shows it: Ġ is a space."""
        return shown(self.vocabulary[token])

    def ids(self, word: str) -> list[int]:
        """The tokens of a word: the merges in their order, each from left to right."""
        symbols = [_POSITION[b] for b in utf8(check_text("word", word))]
        n, ranks = len(symbols), self._ranks
        after, before = list(range(1, n + 1)), list(range(-1, n - 1))
        # always the merge of lowest rank that is possible, the leftmost first
        queue = [(*ranks[p], i, p) for i, p in enumerate(pairwise(symbols)) if p in ranks]
        heapq.heapify(queue)

        def offer(i):
            if i >= 0 and (j := after[i]) < n and (p := (symbols[i], symbols[j])) in ranks:
                heapq.heappush(queue, (*ranks[p], i, p))

        while queue:
            _, token, i, pair = heapq.heappop(queue)
            if symbols[i] != pair[0] or (j := after[i]) >= n or symbols[j] != pair[1]:
                continue  # one of the two is part of another token by now
            symbols[i], symbols[j], after[i] = token, -1, after[j]
            if after[j] < n:
                before[after[j]] = i
            offer(before[i])
            offer(i)
        return [s for s in symbols if s >= 0]

    def text(self, ids: Int[ArrayLike, "n"] | Sequence[int]) -> str:
        """The text of tokens."""
        return from_utf8(b"".join(self.vocabulary[i] for i in check_ids(ids, len(self))))
