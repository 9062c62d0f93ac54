"""Tokenisers: what each of the three learns from a text, and that nothing of a text is lost."""

from collections import Counter
from itertools import combinations, pairwise
from typing import Annotated

import jax
import numpy as np

from corollary.evidence import Range, at_least, at_most, claim, control, equal, monotone
from corollary.language import BPE, Tokeniser, Unigram, WordPiece, words


def _text(key, n: int, kinds: int = 150) -> str:
    """A text of `n` words of random letters, the i-th most frequent of them in proportion to 1/i."""
    letter_key, length_key, word_key = jax.random.split(key, 3)
    letters = np.asarray(jax.random.randint(letter_key, (kinds, 8), 0, 12))
    lengths = np.asarray(jax.random.randint(length_key, (kinds,), 2, 9))
    lexicon = ["".join(chr(97 + c) for c in row[:m]) for row, m in zip(letters, lengths, strict=True)]
    law = 1 / np.arange(1, kinds + 1)
    chosen = np.asarray(jax.random.choice(word_key, kinds, (n,), p=law / law.sum()))
    return " ".join(lexicon[i] for i in chosen)


def _any_text(key, n: int) -> str:
    """Characters from all of Unicode, lone surrogates included, with spaces and line ends among them."""
    codes = np.asarray(jax.random.randint(key, (n,), 0, 0x110000))
    return "".join(" \n\t'#["[c % 6] if c % 3 == 0 else chr(c) for c in codes.tolist())


@claim(rows=("B10.56", "B10.57"))
def byte_pair_encoding(
    key, *, merges: Annotated[int, Range(1, 150)] = 60, n: Annotated[int, Range(500, 20_000)] = 1500
):
    r"""Byte-pair encoding merges the most frequent pair, shortens the text by each merge, and loses nothing.

    Start from the bytes of a text cut into words. Every step makes a token of the most frequent pair of neighbours, and
    the text is encoded by applying the merges in their order. Then encoding with the first $m$ merges leaves a text in
    which the $m+1$-st is the most frequent pair; the number of tokens falls with every merge by the number of
    occurrences that do not overlap; and decoding is the exact inverse of encoding, for every string whatever.
    """
    text_key, any_key = jax.random.split(key)
    text = _text(text_key, n)
    counts = Counter(words(text))
    model = BPE.train(counts, 256 + merges)
    sizes, chosen, most, dropped = [], [], [], []
    for m in range(len(model.merges) + 1):
        cut = {word: BPE(model.merges[:m]).ids(word) for word in counts}
        sizes.append(sum(count * len(cut[word]) for word, count in counts.items()))
        if m < len(model.merges):
            pairs = Counter()
            for word, count in counts.items():
                for pair in pairwise(cut[word]):
                    pairs[pair] += count
            chosen.append(pairs[model.merges[m]])
            most.append(max(pairs.values()))
            # Python counts what does not overlap, from left to right
            pair = "".join(map(chr, model.merges[m]))
            dropped.append(sum(c * "".join(map(chr, cut[word])).count(pair) for word, c in counts.items()))
    yield equal("occurrences of the merged pair and of any pair", chosen, most, rtol=0, atol=0, along="merge")
    yield equal("tokens saved by each merge", -np.diff(sizes), dropped, rtol=0, atol=0, along="merge")
    yield monotone("tokens of the text", sizes, "decreasing", strict=True, along="merges")
    odd = _any_text(any_key, 2000)
    tokenisers = [Tokeniser(model), *(Tokeniser.train(m, text, 340) for m in (WordPiece, Unigram))]
    lost = [t.decode(t.encode(s)) != s for t in tokenisers for s in (text, odd, odd[:1], "")]
    yield equal("texts that are not what they were, three tokenisers", lost, 0.0, rtol=0, atol=0)
    plain = Tokeniser.train(WordPiece, text, 340, fallback=False)
    yield control(
        "unknown characters become bytes: here one token",
        equal("texts that are not what they were", [plain.decode(plain.encode(odd)) != odd], 0.0, rtol=0, atol=0),
    )


@claim(rows=("B10.58", "E06.14"))
def wordpiece_merges(key, *, n: Annotated[int, Range(500, 20_000)] = 1500, merges: Annotated[int, Range(10, 150)] = 60):
    r"""WordPiece merges what raises the likelihood most, and that is not the pair with the largest ratio.

    Let every symbol $s$ of a text be drawn independently with its frequency $c_s/N$: its log-likelihood is
    $\sum_sc_s\ln\frac{c_s}N$. WordPiece merges the pair $(a,b)$ that raises it most. With $m$ merged occurrences,
    $f(c)=c\ln c$ and $a\ne b$ the gain is $f(m)+f(c_a-m)-f(c_a)+f(c_b-m)-f(c_b)+f(N)-f(N-m)$, which is
    $m\ln\frac{Nm}{c_ac_b}$ to first order: the ratio $\frac m{c_ac_b}$ often given as the rule lacks the factor $m$
    outside the logarithm and so prefers pairs that occur once. A word is then cut, from left to right, into the
    longest pieces that there are.
    """
    counts = Counter(words(_text(key, n)))
    # symbols as characters of a private area, so that a merge is a replacement in a string
    ids: dict = {}
    spelled = {
        "".join(chr(0xE000 + ids.setdefault((c, i > 0), len(ids))) for i, c in enumerate(word)): count
        for word, count in counts.items()
    }

    def likelihood(corpus):
        symbols = Counter()
        for word, count in corpus:
            for s in word:
                symbols[s] += count
        c = np.array(list(symbols.values()), float)
        return float(np.sum(c * np.log(c / c.sum()))), symbols

    start, symbols = likelihood(spelled.items())
    pairs = sorted({word[i : i + 2] for word in spelled for i in range(len(word) - 1)})
    times = np.array([sum(c * word.count(p) for word, c in spelled.items()) for p in pairs], float)
    gains = np.array([likelihood((w.replace(p, "\ue800"), c) for w, c in spelled.items())[0] - start for p in pairs])
    a, b = (np.array([symbols[p[i]] for p in pairs], float) for i in (0, 1))
    total, same = float(sum(symbols.values())), np.array([p[0] == p[1] for p in pairs])

    def f(c):
        return np.where(c > 0, c * np.log(np.maximum(c, 1e-300)), 0.0)

    formula = f(times) + f(a - times) - f(a) + f(b - times) - f(b) + f(total) - f(total - times)
    # sums of thousands of logarithms of the size of the likelihood itself
    rounding = 1e-12 * abs(start)
    yield equal("gain of merging a pair", gains[~same], formula[~same], rtol=0, atol=rounding, along="pair")
    base, ratio = 1 + len(ids), times / (a * b)
    model, other = (WordPiece.train(counts, base + 1, by=by, fallback=False) for by in ("likelihood", "ratio"))

    def merged(model):  # which of the pairs spells the new piece
        spell = {chr(0xE000 + i): piece[0] for piece, i in ids.items()}
        text, inside = model.pieces[-1]
        inner = {chr(0xE000 + i): piece[1] for piece, i in ids.items()}
        return next(i for i, p in enumerate(pairs) if spell[p[0]] + spell[p[1]] == text and inner[p[0]] == inside)

    yield equal("gain of the first merge", gains[merged(model)], gains.max(), rtol=0, atol=rounding)
    yield equal("ratio of the first merge by ratio", ratio[merged(other)], ratio.max(), rtol=1e-12)
    yield control(
        "the pair with the largest gain is merged: here that with the largest ratio",
        equal("gain of the first merge by ratio", gains[merged(other)], gains.max(), rtol=0, atol=rounding),
    )
    grown = [WordPiece.train(counts, base + merges, by=by, fallback=False) for by in ("likelihood", "ratio")]
    tokens = [sum(c * len(m.ids(word)) for word, c in counts.items()) for m in grown]
    yield at_most("tokens of the text, against merging by ratio", tokens[0], tokens[1])
    pieces = set(grown[0].pieces)
    beaten = 0
    for word in counts:
        at = 0
        for i in grown[0].ids(word):
            size = len(grown[0].pieces[i - 1][0])
            beaten += any((word[at:end], at > 0) in pieces for end in range(at + size + 1, len(word) + 1))
            at += size
    yield equal("pieces that a longer one could have replaced", beaten, 0, rtol=0, atol=0)


@claim(rows=("B10.59",))
def unigram_expectation_maximisation(
    key, *, n: Annotated[int, Range(200, 20_000)] = 600, rounds: Annotated[int, Range(2, 200)] = 25
):
    r"""Expectation maximisation never lowers the likelihood of the unigram model, and Viterbi finds its best cut.

    A word has the probability $\sum\prod_jp(t_j)$ over all ways to cut it into tokens $t_1,t_2,\dots$ One round counts
    how often each token is expected in the words of a text under the present $p$, and takes these numbers, normalised,
    as the next $p$. The log-likelihood of the text never falls. Counting how often a token occurs in the text at all,
    whether it is used or not, does not have this property. The encoding of a word is its most probable cut, which
    Viterbi's algorithm finds among all $2^{\ell-1}$ of a word with $\ell$ letters.
    """
    counts = Counter(words(_text(key, n)))
    letters = sorted(set("".join(counts)))
    found = Counter()
    for word, count in counts.items():
        for i in range(len(word)):
            for j in range(i + 2, min(i + 4, len(word)) + 1):
                found[word[i:j]] += count
    model = Unigram.uniform([*letters, *(part for part, _ in found.most_common(300))])
    path = []
    for _ in range(rounds):
        model, value = model.step(counts)
        path.append(value)
    last = model.step(counts)[1]
    # a sum over the words, of the size of the likelihood itself
    yield monotone("log-likelihood of the text", [*path, last], atol=1e-12 * abs(last), along="round")
    yield equal("sum of the probabilities", np.exp(model.log_p).sum(), 1.0, rtol=1e-12)
    seen = Counter("".join(word * count for word, count in counts.items()))
    naive = model.maximised(np.array([float(found[p] or seen[p]) for p in model.pieces]))
    yield control(
        "tokens are counted as often as they are expected: here whether used or not",
        monotone("log-likelihood, before and after", [last, naive.step(counts)[1]], atol=1e-12 * abs(last)),
    )

    score = dict(zip(model.pieces, model.log_p, strict=True))
    best, sums, cut = [], [], []
    chosen = list(counts)[:20]
    for word in chosen:
        values = []
        for size in range(len(word)):
            for cuts in combinations(range(1, len(word)), size):
                parts = [word[i:j] for i, j in pairwise((0, *cuts, len(word)))]
                if all(part in score for part in parts):
                    values.append(sum(score[part] for part in parts))
        best.append(max(values))
        sums.append(np.logaddexp.reduce(values))
        cut.append(sum(model.log_p[i - 256] for i in model.ids(word)))
    # a handful of logarithms each
    yield equal("log-probability of the best cut", cut, best, rtol=1e-12, along="word")
    yield equal("log-probability of a word", [model.log_likelihood(w) for w in chosen], sums, rtol=1e-10, along="word")
    yield at_least("log-probability of a word, against its best cut", sums, best, along="word")
