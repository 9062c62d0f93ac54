"""A corpus of words in which pairs of symbols are merged, with the counts kept up to date."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

Pair = tuple[int, int]


class Corpus:
    """Words as lists of symbols. `pairs` has how often each pair occurs among the `neighbours` of a word: all of them,
    overlaps included, unless told."""

    def __init__(
        self,
        words: list[list[int]],
        counts: list[int],
        neighbours: Callable[[list[int]], Iterable[Pair]] = pairwise,
    ):
        self.words, self.counts, self.neighbours = words, counts, neighbours
        self.pairs: dict[Pair, int] = defaultdict(int)
        self.where: dict[Pair, set[int]] = defaultdict(set)
        for i, (word, count) in enumerate(zip(words, counts, strict=True)):
            for pair in neighbours(word):
                self.pairs[pair] += count
                self.where[pair].add(i)

    @property
    def size(self) -> int:
        """How many symbols the whole corpus has."""
        return sum(len(word) * count for word, count in zip(self.words, self.counts, strict=True))

    def merge(self, pair: Pair, symbol: int) -> tuple[set[Pair], int]:
        """Make `symbol` of every occurrence of `pair`, from left to right; the pairs whose counts changed, and how
        many occurrences were merged."""
        changed, merged = set(), 0
        for i in sorted(self.where.pop(pair, ())):
            old, count = self.words[i], self.counts[i]
            new = joined(old, pair, symbol)
            if len(new) == len(old):  # an earlier merge took the pair apart
                continue
            merged += count * (len(old) - len(new))
            for p in self.neighbours(old):
                self.pairs[p] -= count
                changed.add(p)
            for p in self.neighbours(new):
                self.pairs[p] += count
                self.where[p].add(i)
                changed.add(p)
            self.words[i] = new
        return changed, merged


def apart(word: list[int]) -> Iterator[Pair]:
    """The pairs of neighbours that a merge would take: in a run of one symbol every second pair, from left to right."""
    free = 0
    for i, (a, b) in enumerate(pairwise(word)):
        if a != b:
            yield a, b
        elif i >= free:
            yield a, b
            free = i + 2


def joined(word: list[int], pair: Pair, symbol: int) -> list[int]:
    """`word` with `symbol` for every occurrence of `pair`, from left to right."""
    a, b = pair
    out, i, last = [], 0, len(word) - 1
    while i <= last:
        if i < last and word[i] == a and word[i + 1] == b:
            out.append(symbol)
            i += 2
        else:
            out.append(word[i])
            i += 1
    return out
