"""WordPiece: a vocabulary grown by merging the pair that the likelihood gains most from, and longest matches.

A piece that starts a word and the same letters inside one are two tokens; the latter is shown with `##`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import ArrayLike, Int
from scipy.special import xlogy

from corollary._validate import one_of, whole
from corollary.catalog import implements
from corollary.language._merging import Corpus, apart
from corollary.language._utf8 import check_ids, check_text, check_words, from_utf8, utf8

MARKER, UNKNOWN = "##", "[UNK]"
Piece = tuple[str, bool]  # the letters, and whether they continue a word


@implements("B10.58", "E06.14")
@dataclass(frozen=True)
class WordPiece:
    """Pieces of words, and the words cut into the longest pieces that fit, from left to right.

    With `fallback` a character that no piece begins with is spelled by its bytes, tokens 0 to 255: every text has an
    encoding. Without, a word that cannot be cut up is token 0, `[UNK]`, as a whole. `glue` goes between two words of
    a decoded text; it stays empty with a split that keeps the space.
    """

    pieces: tuple[Piece, ...]
    fallback: bool = True
    glue: str = ""

    @classmethod
    def from_tokens(cls, tokens: Iterable[str], *, fallback: bool = False, glue: str = " ") -> "WordPiece":
        """The model of a list in BERT's form: `un`, `##aff`, `##able`."""
        return cls(tuple((t.removeprefix(MARKER), t.startswith(MARKER)) for t in tokens), fallback, glue)

    @classmethod
    def train(
        cls,
        words: Mapping[str, int],
        size: int,
        *,
        by: str = "likelihood",
        least: int = 1,
        fallback: bool = True,
        glue: str = "",
    ) -> "WordPiece":
        """Learn a vocabulary of `size` tokens from words and how often each occurs.

        Starts from the characters and merges the pair that raises the log-likelihood of the corpus most, every symbol
        drawn independently with its frequency; with `by="ratio"` the one with the largest `count(ab) / (count(a)
        count(b))`, which is often given as the rule and favours what occurs once. Of equal ones the more frequent is
        taken, then the one that came up first. Pairs that occur less than `least` times are left alone; in a run of one
        symbol only the occurrences count that a merge would take, every second one.
        """
        score = SCORES[one_of("by", by, tuple(SCORES))]
        table, size, least = check_words(words), whole("size", size, 1), whole("least", least, 1)
        ids: dict[Piece, int] = {}
        spelled = [[ids.setdefault((c, i > 0), len(ids)) for i, c in enumerate(word)] for word in table]
        special = 256 if fallback else 1
        if size < special + len(ids):
            raise ValueError(f"size must be at least {special + len(ids)} to hold all characters, got {size}.")
        corpus, pairs = Corpus(spelled, list(table.values()), apart), _Pairs()
        pieces, singles = list(ids), np.zeros(size - special + 1)
        for word, count in zip(corpus.words, corpus.counts, strict=True):
            np.add.at(singles, word, count)
        pairs.update(corpus.pairs, corpus.pairs)
        while special + len(ids) < size and (pair := pairs.best(score, singles, least)) is not None:
            (a, start), (b, _) = pieces[pair[0]], pieces[pair[1]]
            merged = ids.setdefault((a + b, start), len(ids))
            if merged == len(pieces):
                pieces.append((a + b, start))
            changed, times = corpus.merge(pair, merged)
            singles[pair[0]] -= times
            singles[pair[1]] -= times
            singles[merged] += times
            pairs.update(corpus.pairs, changed | {pair})
        return cls(tuple(pieces), fallback, glue)

    @cached_property
    def _ids(self) -> dict[Piece, int]:
        return {piece: i + self._special for i, piece in enumerate(self.pieces)}

    @property
    def _special(self) -> int:
        return 256 if self.fallback else 1

    @cached_property
    def _longest(self) -> int:
        return max((len(text) for text, _ in self.pieces), default=0)

    def __len__(self) -> int:
        return self._special + len(self.pieces)

    def name(self, token: int) -> str:
        """A token as BERT shows it: `##` where it continues a word."""
        if token < self._special:
            return f"<0x{token:02X}>" if self.fallback else UNKNOWN
        text, continues = self.pieces[token - self._special]
        return MARKER * continues + text

    def ids(self, word: str) -> list[int]:
        """The tokens of a word: at every place the longest piece that fits."""
        check_text("word", word)
        out, i, ids = [], 0, self._ids
        while i < len(word):
            for end in range(min(len(word), i + self._longest), i, -1):
                if (found := ids.get((word[i:end], i > 0))) is not None:
                    out.append(found)
                    i = end
                    break
            else:
                if not self.fallback:
                    return [0]
                out += utf8(word[i])
                i += 1
        return out

    def text(self, ids: Int[ArrayLike, "n"] | Sequence[int]) -> str:
        """The text of tokens."""
        out = []
        for i in check_ids(ids, len(self)):
            if i < self._special:
                out.append(bytes([i]) if self.fallback else utf8((self.glue if out else "") + UNKNOWN))
            else:
                text, continues = self.pieces[i - self._special]
                out.append(utf8(text if continues or not out else self.glue + text))
        return from_utf8(b"".join(out))


class _Pairs:
    """The pairs of a corpus as arrays, so that the best of them is one pass over numbers."""

    def __init__(self):
        self.row: dict[tuple[int, int], int] = {}
        self.both, self.counts = np.zeros((2, 1024), int), np.zeros(1024)

    def update(self, counts, changed):
        for pair in sorted(changed):
            row = self.row.setdefault(pair, len(self.row))
            if row == len(self.counts):
                self.both = np.concatenate([self.both, np.zeros_like(self.both)], 1)
                self.counts = np.concatenate([self.counts, np.zeros_like(self.counts)])
            self.both[:, row] = pair
            self.counts[row] = counts[pair]

    def best(self, score, singles, least):
        counts, (a, b) = self.counts[: len(self.row)], self.both[:, : len(self.row)]
        often = np.flatnonzero(counts >= least)
        if not often.size:
            return None
        scores = score(counts[often], singles[a[often]], singles[b[often]], a[often] == b[often], singles.sum())
        top = often[scores == scores.max()]
        row = top[np.argmax(counts[top])]
        return int(a[row]), int(b[row])


def ratio(ab, a, b, same, total):
    """How much more often two symbols are neighbours than by chance, up to a constant."""
    return ab / (a * b)


def likelihood_gain(ab, a, b, same, total):
    r"""What a merge adds to $\sum_sc_s\log\frac{c_s}{\sum c}$: the pair has its count, and its parts that much less."""
    change = xlogy(ab, ab) - xlogy(total - ab, total - ab) + xlogy(total, total)
    left, twice = np.maximum(a - ab, 0), np.maximum(a - 2 * ab, 0)
    parts = xlogy(left, left) - xlogy(a, a) + xlogy(np.maximum(b - ab, 0), np.maximum(b - ab, 0)) - xlogy(b, b)
    return change + np.where(same, xlogy(twice, twice) - xlogy(a, a), parts)


SCORES = {"likelihood": likelihood_gain, "ratio": ratio}
