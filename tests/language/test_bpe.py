from pathlib import Path

import numpy as np
import pytest

from corollary.language import BPE, Tokeniser, Unigram, WordPiece, normaliser

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "design.md").read_text("utf-8")
CLASSIC = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
MODELS = [Tokeniser.train(m, TEXT, 500) for m in (BPE, WordPiece, Unigram)]


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


# unigram


TOY = Unigram(("a", "b", "c", "ab", "bc", "abc", "ca"), tuple(np.log([0.2, 0.15, 0.1, 0.2, 0.1, 0.05, 0.2])))


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
        (lambda: BPE(((300, 1),)), "merges must join tokens that already exist"),
        (lambda: WordPiece.train(CLASSIC, 260), "size must be at least 267 to hold all characters"),
        (lambda: WordPiece.train(CLASSIC, 300, by="luck"), "by must be one of"),
        (lambda: Unigram.train(CLASSIC, 260), "size must be at least 266 to hold all characters"),
        (lambda: Unigram.train(CLASSIC, 300, keep=1.0), "keep must be in"),
        (lambda: Unigram(("a", "a"), (0.0, 0.0)), "pieces must be different non-empty strings"),
        (lambda: TOY.step({"abd": 1}), "words must consist of characters that are tokens, got 'd'"),
        (lambda: normaliser("NF"), "form must be one of"),
    ]:
        with pytest.raises((TypeError, ValueError), match=sentence):
            bad()
