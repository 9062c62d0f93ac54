from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from corollary.language import WordPiece
from corollary.language.wordpiece import likelihood_gain

CLASSIC = {"low": 5, "lower": 2, "newest": 6, "widest": 3}


def log_likelihood(corpus):
    counts = Counter()
    for word, count in corpus:
        counts.update({s: count * n for s, n in Counter(word).items()})
    total = sum(counts.values())
    return sum(c * np.log(c / total) for c in counts.values())


def replaced(word, pair):
    out = []
    for symbol in word:
        if out and (out[-1], symbol) == pair:
            out[-1] = (pair[0][0] + pair[1][0], pair[0][1])
        else:
            out.append(symbol)
    return tuple(out)


@pytest.mark.parametrize("by", ["likelihood", "ratio"])
def test_every_merge_is_the_best_one(by):
    start = [(tuple((c, i > 0) for i, c in enumerate(word)), count) for word, count in CLASSIC.items()]
    singles = {s for word, _ in start for s in word}
    learnt = WordPiece.train(CLASSIC, 1 + len(singles) + 6, by=by, fallback=False).pieces[len(singles) :]
    for piece in learnt:
        pairs, symbols = Counter(), Counter()
        for word, count in start:
            pairs.update({p: count for p in pairwise(word)})
        symbols = Counter(s for word, count in start for s in word for _ in range(count))

        def score(pair, pairs=pairs, symbols=symbols, start=start):
            if by == "ratio":
                return pairs[pair] / symbols[pair[0]] / symbols[pair[1]]
            return log_likelihood([(replaced(word, pair), count) for word, count in start])

        best = max(map(score, pairs))
        chosen = [p for p in pairs if (p[0][0] + p[1][0], p[0][1]) == piece and score(p) > best - 1e-9]
        assert chosen
        start = [(replaced(word, chosen[0]), count) for word, count in start]


def test_gain_of_a_merge_is_what_it_adds_to_the_log_likelihood():
    lexicon = {"aa": 5, "ab": 3, "bc": 2, "cab": 1, "bca": 4}
    corpus = [(tuple((c, False) for c in word), count) for word, count in lexicon.items()]
    symbols = Counter(s for word, count in corpus for s in word for _ in range(count))
    pairs = Counter(p for word, count in corpus for p in pairwise(word) for _ in range(count))
    before, total = log_likelihood(corpus), sum(symbols.values())
    gains = []
    for (a, b), count in pairs.items():
        after = log_likelihood([(replaced(word, (a, b)), n) for word, n in corpus])
        gains.append(float(likelihood_gain(count, symbols[a], symbols[b], a == b, total)))
        assert gains[-1] == pytest.approx(after - before, rel=1e-12, abs=1e-12)
    assert min(gains) < 0 < max(gains)  # of both signs, so that neither could be taken for the other


def test_runs_of_one_letter_count_as_often_as_they_merge():
    # "bbbb" merges to two pairs, of which its three overlapping neighbours would make a gain too large
    words = {"abbbb": 40, "acd": 30, "aceb": 5}
    start = [(tuple((c, i > 0) for i, c in enumerate(word)), n) for word, n in words.items()]
    singles = {s for word, _ in start for s in word}
    pairs = sorted({pair for word, _ in start for pair in pairwise(word)})
    gains = [log_likelihood([(replaced(word, p), n) for word, n in start]) - log_likelihood(start) for p in pairs]
    (a, inside), (b, _) = pairs[int(np.argmax(gains))]
    assert WordPiece.train(words, 1 + len(singles) + 1, fallback=False).pieces[-1] == (a + b, inside)
