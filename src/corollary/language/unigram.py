r"""The unigram language model: a word is drawn token by token, and its most likely segmentation is its encoding.

$p(t_1,\dots,t_m)=\prod_jp(t_j)$ over all ways to cut the word into tokens. The probabilities are learnt by expectation
maximisation: tokens expected under the present ones, counted anew. Between two rounds of it the tokens go that the
likelihood of the text misses least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import jax
import numpy as np
from jaxtyping import ArrayLike, Float, Int, PRNGKeyArray

from corollary._validate import whole, within
from corollary.catalog import implements
from corollary.language._lattice import Lattice
from corollary.language._utf8 import check_ids, check_text, check_words, from_utf8, utf8

PENALTY = 10.0  # how many nats a byte is less likely than the least likely token


@implements("B10.59")
@dataclass(frozen=True)
class Unigram:
    """Tokens with their log-probabilities. Token 0 to 255 are the bytes of characters that no token has."""

    pieces: tuple[str, ...]
    log_p: tuple[float, ...]

    def __post_init__(self):
        if len(self.pieces) != len(self.log_p) or len(set(self.pieces)) != len(self.pieces) or "" in self.pieces:
            raise ValueError("pieces must be different non-empty strings, with one log_p each.")
        within("log_p", np.asarray(self.log_p, float), -np.inf, 0.0)

    @classmethod
    def train(
        cls,
        words: Mapping[str, int],
        size: int,
        *,
        longest: int = 16,
        seeds: int | None = None,
        keep: float = 0.75,
        rounds: int = 2,
    ) -> "Unigram":
        """Learn a vocabulary of `size` tokens from words and how often each occurs.

        Starts from the `seeds` (10 times `size`) parts of words, up to `longest` characters long, for which count
        times length is largest, and from all characters, which stay. Then `rounds` of expectation maximisation, and
        only the share `keep` of the tokens stays, until there are no more than `size`.
        """
        table, size, longest = check_words(words), whole("size", size, 1), whole("longest", longest, 1)
        seeds = whole("seeds", 10 * size if seeds is None else seeds, 1)
        within("keep", keep, 0.0, 1.0, open="both")
        letters = sorted(set("".join(table)))
        if size < 256 + len(letters):
            raise ValueError(f"size must be at least {256 + len(letters)} to hold all characters, got {size}.")
        found = Counter()
        for word, count in table.items():
            for i in range(len(word)):
                for j in range(i + 2, min(len(word), i + longest) + 1):
                    found[word[i:j]] += count
        ranked = sorted((part for part, n in found.items() if n > 1), key=lambda part: (-found[part] * len(part), part))
        model = cls.uniform([*letters, *ranked[:seeds]])
        lattice, spelling = Lattice.of(table, model.pieces), Lattice.of(model.pieces, model.pieces, proper=True)
        counts = np.asarray(list(table.values()), float)
        while True:
            for _ in range(whole("rounds", rounds, 1)):
                expected, _ = lattice.expected(np.asarray(model.log_p), counts)
                model = model.maximised(expected)
            if len(model) <= size:
                return model
            # what the likelihood loses with a token: it is spelled by the best of the others
            log_p = np.asarray(model.log_p)
            loss = expected * (log_p - spelling.best(log_p))
            loss[: len(letters)] = np.inf
            room = max(size - 256, int(keep * len(log_p)))
            kept = np.sort(np.argsort(-loss, kind="stable")[:room])
            lattice, spelling = lattice.restricted(kept, len(log_p)), spelling.restricted(kept, len(log_p), words=True)
            model = cls(tuple(model.pieces[i] for i in kept), log_p[kept]).maximised(expected[kept])

    @classmethod
    def uniform(cls, pieces: Sequence[str]) -> "Unigram":
        """These tokens, each as likely as any other."""
        return cls(tuple(pieces), (-float(np.log(len(pieces))),) * len(pieces))

    def step(self, words: Mapping[str, int]) -> tuple["Unigram", float]:
        """One round of expectation maximisation, and the log-likelihood of the words before it.

        No round lowers the log-likelihood. The words must consist of characters that are tokens.
        """
        table = check_words(words)
        if missing := set("".join(table)) - set(self.pieces):
            raise ValueError(f"words must consist of characters that are tokens, got {min(missing)!r}.")
        lattice, counts = Lattice.of(table, self.pieces), np.asarray(list(table.values()), float)
        expected, likelihood = lattice.expected(np.asarray(self.log_p), counts)
        return self.maximised(expected), likelihood

    def maximised(self, expected: Float[ArrayLike, "..."]) -> "Unigram":
        """The same tokens with probabilities in proportion to how often each is `expected`."""
        with np.errstate(divide="ignore"):
            log_p = np.log(expected) - np.log(expected.sum())
        # a token that is never used has probability zero; the least normal number keeps sums of logarithms finite
        return Unigram(self.pieces, tuple(np.maximum(log_p, np.log(np.finfo(float).tiny)).tolist()))

    @cached_property
    def _scores(self) -> dict[str, tuple[int, float]]:
        return {piece: (256 + i, score) for i, (piece, score) in enumerate(zip(self.pieces, self.log_p, strict=True))}

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.pieces))

    @cached_property
    def _fallback(self) -> float:
        return min(self.log_p) - PENALTY

    def __len__(self) -> int:
        return 256 + len(self.pieces)

    def name(self, token: int) -> str:
        """A token in readable form."""
        return f"<0x{token:02X}>" if token < 256 else self.pieces[token - 256]

    def _edges(self, word: str):
        """Per end of a token in the word: (start, ids, log-probability) of what can end there."""
        scores, fallback = self._scores, self._fallback
        for end in range(1, len(word) + 1):
            fits = [
                (start, [scores[part][0]], scores[part][1])
                for start in range(max(0, end - self._longest), end)
                if (part := word[start:end]) in scores
            ]
            if word[end - 1] not in scores:
                spelled = list(utf8(word[end - 1]))
                fits.append((end - 1, spelled, fallback * len(spelled)))
            yield end, fits

    def ids(self, word: str) -> list[int]:
        """The tokens of a word: its most likely segmentation, by Viterbi's algorithm."""
        best, back = [0.0], [(0, [])]
        for _, fits in self._edges(check_text("word", word)):
            values = [best[start] + score for start, _, score in fits]
            i = max(range(len(fits)), key=values.__getitem__)
            best.append(values[i])
            back.append(fits[i][:2])
        out, end = [], len(word)
        while end > 0:
            end, token = back[end]
            out.append(token)
        return [i for token in reversed(out) for i in token]

    def log_likelihood(self, word: str) -> float:
        """The log-probability of a word: the sum over all its segmentations."""
        return float(self._forward(check_text("word", word))[0][-1])

    def _forward(self, word):
        alpha, steps = np.zeros(len(word) + 1), []
        for end, fits in self._edges(word):
            terms = np.array([alpha[start] + score for start, _, score in fits])
            alpha[end] = np.logaddexp.reduce(terms)
            steps.append((np.array([start for start, _, _ in fits]), [t for _, t, _ in fits], terms - alpha[end]))
        return alpha, steps

    def sample(self, word: str, count: int, *, key: PRNGKeyArray) -> list[list[int]]:
        """`count` segmentations of a word, drawn with their probabilities (subword regularisation).

        Drawn from the end: the last token given the word, then the last one of what is left.
        """
        _, steps = self._forward(check_text("word", word))
        n, count = len(word), whole("count", count)
        draws = np.asarray(jax.random.uniform(key, (n, count)))
        at, taken = np.full(count, n), np.full((n + 1, count), -1)
        for end in range(n, 0, -1):  # all samples that stand at this end at once
            here = np.flatnonzero(at == end)
            starts, _, logs = steps[end - 1]
            chosen = np.minimum(np.searchsorted(np.cumsum(np.exp(logs)), draws[end - 1, here]), len(starts) - 1)
            taken[end, here], at[here] = chosen, starts[chosen]
        ends = range(1, n + 1)
        return [
            [i for end in ends if taken[end, s] >= 0 for i in steps[end - 1][1][taken[end, s]]] for s in range(count)
        ]

    def text(self, ids: Int[ArrayLike, "n"] | Sequence[int]) -> str:
        """The text of tokens."""
        tokens = check_ids(ids, len(self))
        return from_utf8(b"".join(bytes([i]) if i < 256 else utf8(self.pieces[i - 256]) for i in tokens))
