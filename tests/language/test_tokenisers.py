from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corollary.language import (
    BPE,
    Tokeniser,
    Unigram,
    Whole,
    WordPiece,
    bert_words,
    characters,
    normaliser,
    uncut,
    words,
)
from corollary.language.wordpiece import likelihood_gain

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "design.md").read_text("utf-8")
CLASSIC = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
MODELS = [Tokeniser.train(m, TEXT, 500) for m in (BPE, WordPiece, Unigram)]
ODD = "naïve 漢字\ud800 \x00\r\n\t ## [UNK] <0x41> 🎉  \u2028a"


@settings(max_examples=50)
@given(st.text())
@example(ODD)
@example(TEXT)
def test_decoding_is_the_inverse_of_encoding_for_every_text(text):
    for tokeniser in MODELS:
        ids = tokeniser.encode(text)
        assert tokeniser.decode(ids) == text
        assert ids.size == 0 or ids.max() < len(tokeniser)
    assert "".join(words(text)) == text == "".join(characters(text)) == "".join(uncut(text))


def test_sizes_and_compression():
    for tokeniser in MODELS:
        assert len(tokeniser) == 500
        assert tokeniser.encode(TEXT).size < 0.7 * len(TEXT)  # 500 tokens, 256 of them bytes, of 9,000 characters


def test_bytes_that_are_no_text_are_replaced():
    for tokeniser, byte in zip(MODELS, (BPE(()).ids("é")[0], 0xC3, 0xC3), strict=True):
        assert tokeniser.decode([byte]) == "\ufffd"


# byte-pair encoding


def test_the_classic_corpus():
    model = BPE.train(CLASSIC, 256 + 10)
    assert [model.name(i) for i in range(256, 261)] == ["es", "est", "lo", "low", "ew"]
    assert [model.name(i) for i in model.ids("lowest")] == ["low", "est"]
    assert len(BPE.train(CLASSIC, 10_000)) < 300  # there is nothing left to merge
    assert len(BPE.train(CLASSIC, 10_000, least=9).merges) == 2


def test_merges_one_after_the_other():
    model = MODELS[0].model
    vocabulary = model.vocabulary
    for word in [*words(TEXT)[:200], "aaaaaaa", "     ", TEXT[:300]]:
        symbols = [bytes([b]) for b in word.encode()]
        for a, b in model.merges:
            pair, i = (vocabulary[a], vocabulary[b]), 0
            while i < len(symbols) - 1:
                if (symbols[i], symbols[i + 1]) == pair:
                    symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
                i += 1
        assert [vocabulary[i] for i in model.ids(word)] == symbols


def test_bpe_of_the_tokenizers_package():
    tokenizers = pytest.importorskip("tokenizers", reason="the reference tokenisers are not installed")
    bytelevel = tokenizers.pre_tokenizers.ByteLevel
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    theirs.pre_tokenizer = bytelevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=500, initial_alphabet=bytelevel.alphabet(), show_progress=False)
    theirs.train_from_iterator([TEXT], trainer)
    ours = MODELS[0]
    assert theirs.get_vocab() == {ours.model.name(i): i for i in range(len(ours))}
    np.testing.assert_array_equal(theirs.encode(TEXT).ids, ours.encode(TEXT))


# WordPiece


def test_longest_match_first():
    model = WordPiece.from_tokens(["un", "##aff", "##able", "u", "##n", "a"])
    tokeniser = Tokeniser(model, split=bert_words)
    assert tokeniser.tokens("unaffable un") == ["un", "##aff", "##able", "un"]
    assert tokeniser.tokens("unaffably") == ["[UNK]"]
    assert tokeniser.decode(tokeniser.encode("unaffable a xyz un")) == "unaffable a [UNK] un"


def test_wordpiece_of_the_tokenizers_package():
    tokenizers = pytest.importorskip("tokenizers", reason="the reference tokenisers are not installed")
    ours = Tokeniser.train(WordPiece, TEXT, 300, split=bert_words, fallback=False, glue=" ")
    names = {ours.model.name(i): i for i in range(len(ours))}
    theirs = tokenizers.models.WordPiece(vocab=names, unk_token="[UNK]", max_input_chars_per_word=10**6)
    for word in [*bert_words(TEXT)[:300], "corollaries", "unknowñ"]:
        assert [t.id for t in theirs.tokenize(word)] == ours.model.ids(word)


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


# unigram


TOY = Unigram(("a", "b", "c", "ab", "bc", "abc", "ca"), tuple(np.log([0.2, 0.15, 0.1, 0.2, 0.1, 0.05, 0.2])))


def segmentations(word, model=TOY):
    scores = dict(zip(model.pieces, model.log_p, strict=True))
    for n in range(len(word)):
        for cuts in combinations(range(1, len(word)), n):
            parts = [word[i:j] for i, j in pairwise([0, *cuts, len(word)])]
            if all(p in scores for p in parts):
                yield parts, sum(scores[p] for p in parts)


def named(ids):
    return [TOY.name(i) for i in ids]


def test_viterbi_and_likelihood_by_all_segmentations():
    for word in ("a", "abc", "abcabca", "cabcab", "bbcaa"):
        found = list(segmentations(word))
        assert named(TOY.ids(word)) == max(found, key=lambda s: s[1])[0]
        np.testing.assert_allclose(TOY.log_likelihood(word), np.logaddexp.reduce([s for _, s in found]), rtol=1e-13)


def test_one_round_of_expectation_maximisation_by_all_segmentations():
    corpus = {"abca": 3, "cab": 2, "bcab": 1}
    expected, likelihood = Counter(), 0.0
    for word, count in corpus.items():
        found = list(segmentations(word))
        total = np.logaddexp.reduce([s for _, s in found])
        likelihood += count * total
        for parts, score in found:
            for part in parts:
                expected[part] += count * np.exp(score - total)
    model, before = TOY.step(corpus)
    np.testing.assert_allclose(before, likelihood, rtol=1e-13)
    whole = sum(expected.values())
    np.testing.assert_allclose(np.exp(model.log_p), [expected[p] / whole for p in TOY.pieces], rtol=1e-12)


def test_unigram_of_the_tokenizers_package():
    tokenizers = pytest.importorskip("tokenizers", reason="the reference tokenisers are not installed")
    ours = MODELS[2].model
    theirs = tokenizers.models.Unigram([("<unk>", 0.0), *zip(ours.pieces, ours.log_p, strict=True)], 0)
    for word in dict.fromkeys(words(TEXT)[:500]):
        assert [t.id + 255 for t in theirs.tokenize(word)] == ours.ids(word)


def test_drawn_segmentations_have_their_probabilities():
    word, count = "abcabc", 20_000
    drawn = Counter(tuple(named(ids)) for ids in TOY.sample(word, count, key=jax.random.key(0)))
    found = list(segmentations(word))
    total = TOY.log_likelihood(word)
    assert set(drawn) <= {tuple(parts) for parts, _ in found}
    for parts, score in found:
        p = np.exp(score - total)
        assert abs(drawn[tuple(parts)] - count * p) < 5 * np.sqrt(count * p * (1 - p))  # five standard deviations


# the pipeline


def test_uniform_texts():
    assert normaliser("NFKC", lowercase=True, squeeze=True)("  Ｆoo\n BAR ") == "foo bar"
    assert normaliser(accents=False)("Crème brûlée") == "Creme brulee"
    tokeniser = Tokeniser.train(BPE, TEXT, 300, normalise=normaliser(lowercase=True))
    assert tokeniser.decode(tokeniser.encode("The ROOM")) == "the room"


def test_characters_and_words_as_tokens():
    letters = Tokeniser.train(Whole, TEXT, 500, split=characters)
    assert letters.decode(letters.encode(TEXT)) == TEXT
    assert len(letters) == 1 + len(set(TEXT))
    whole = Tokeniser.train(Whole, TEXT, 50)
    assert len(whole) == 50
    assert whole.tokens(" zebra") == ["[UNK]"]
    common = whole.model.vocabulary[1]
    assert Counter(words(TEXT))[common] == max(Counter(words(TEXT)).values())
    assert whole.decode(whole.encode(common)) == common


def test_messages():
    model = MODELS[0]
    for bad, sentence in [
        (lambda: model.encode(b"x"), "text must be a string, got bytes"),
        (lambda: model.decode([500]), "ids must be from 0 to 499, got 500 at index 0"),
        (lambda: model.decode([0.5]), "ids must be a list of integers"),
        (lambda: model.model.ids(3), "word must be a string"),
        (lambda: Tokeniser.train(BPE, "", 300), "text must not be empty"),
        (lambda: Tokeniser.train(3, TEXT, 300), "model must be a class with a method train"),
        (lambda: BPE.train(CLASSIC, 255), "size must be at least 256"),
        (lambda: BPE.train({}, 300), "words must not be empty"),
        (lambda: BPE.train("abc", 300), "words must be a mapping"),
        (lambda: BPE.train({"a": 0}, 300), "words must map strings to counts of 1 or more"),
        (lambda: BPE(((300, 1),)), "merges must join tokens that are there before"),
        (lambda: WordPiece.train(CLASSIC, 260), "size must be at least 267 to hold all characters"),
        (lambda: WordPiece.train(CLASSIC, 300, by="luck"), "by must be one of"),
        (lambda: Unigram.train(CLASSIC, 260), "size must be at least 266 to hold all characters"),
        (lambda: Unigram.train(CLASSIC, 300, keep=1.0), "keep must be in"),
        (lambda: Unigram(("a", "a"), (0.0, 0.0)), "pieces must be different texts"),
        (lambda: TOY.step({"abd": 1}), "words must consist of characters that are tokens, got 'd'"),
        (lambda: normaliser("NF"), "form must be one of"),
    ]:
        with pytest.raises((TypeError, ValueError), match=sentence):
            bad()
