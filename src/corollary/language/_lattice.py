"""All ways to cut many words into tokens, as arrays: sums and maxima over them for all words at once."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np


class Lattice(NamedTuple):
    """One edge per place where a token fits, from the node where it starts to the node where it ends.

    Edges are sorted by `depth`, the place in the word where they end, then by the node there.
    """

    start: np.ndarray
    end: np.ndarray
    token: np.ndarray
    depth: np.ndarray
    first: np.ndarray  # the first and last node of every word
    last: np.ndarray

    @classmethod
    def of(cls, words: Iterable[str], tokens: Iterable[str], *, proper: bool = False) -> "Lattice":
        """The lattice of `words`; `proper`: without tokens that are the whole word, unless it is one character."""
        ids = {token: i for i, token in enumerate(tokens)}
        longest, node, edges, ends = max(map(len, ids)), 0, [], []
        for word in words:
            n = len(word)
            for i in range(n):
                for j in range(i + 1, min(n, i + longest) + 1):
                    found = ids.get(word[i:j])
                    if found is not None and not (proper and j - i == n > 1):
                        edges.append((node + i, node + j, found, j))
            ends.append((node, node + n))
            node += n + 1
        columns = np.array(edges, dtype=np.int64).reshape(-1, 4)
        columns = columns[np.lexsort((columns[:, 1], columns[:, 3]))]
        return cls(*columns.T.copy(), *np.array(ends, dtype=np.int64).T.copy())

    def restricted(self, kept: np.ndarray, size: int, *, words: bool = False) -> "Lattice":
        """The lattice with the tokens `kept` out of `size`, numbered anew; `words`: only those words too."""
        number = np.full(size, -1)
        number[kept] = np.arange(len(kept))
        stay = number[self.token] >= 0
        start, end, token, depth = (a[stay] for a in self[:4])
        first, last = (self.first[kept], self.last[kept]) if words else (self.first, self.last)
        return Lattice(start, end, number[token], depth, first, last)

    def best(self, log_p: np.ndarray) -> np.ndarray:
        """The log-probability of the most likely segmentation of every word."""
        return self._forward(log_p, np.maximum)[self.last]

    def expected(self, log_p: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, float]:
        """How often each token is expected in words that occur `counts` times, and their log-likelihood."""
        alpha, beta = self._forward(log_p, np.logaddexp), self._backward(log_p)
        total, n = alpha[self.last], np.diff(np.append(self.first, self.last[-1] + 1))
        share = np.exp(alpha[self.start] + log_p[self.token] + beta[self.end] - np.repeat(total, n)[self.end])
        weights = share * np.repeat(counts, n)[self.end]
        return np.bincount(self.token, weights, len(log_p)), float(total @ counts)

    def _forward(self, log_p, add):
        alpha = np.full(max(self.end.max(), self.last[-1]) + 1, -np.inf)
        alpha[self.first] = 0.0
        for part in _stretches(self.depth):
            ends = self.end[part]
            heads = np.flatnonzero(np.diff(ends, prepend=-1))
            terms = alpha[self.start[part]] + log_p[self.token[part]]
            alpha[ends[heads]] = add.reduceat(terms, heads)
        return alpha

    def _backward(self, log_p):
        beta = np.full(self.last[-1] + 1, -np.inf)
        beta[self.last] = 0.0
        # how far a start lies in its word is not the order of the edges: sort once more, by place and node
        place = self.depth - (self.end - self.start)
        order = np.lexsort((self.start, place))
        start, end, token = self.start[order], self.end[order], self.token[order]
        for part in reversed(_stretches(place[order])):
            starts = start[part]
            heads = np.flatnonzero(np.diff(starts, prepend=-1))
            beta[starts[heads]] = np.logaddexp.reduceat(beta[end[part]] + log_p[token[part]], heads)
        return beta


def _stretches(sorted_values) -> list[slice]:
    cuts = np.flatnonzero(np.diff(sorted_values)) + 1
    return [slice(a, b) for a, b in zip([0, *cuts], [*cuts, len(sorted_values)], strict=True)]
