from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corollary.language import BPE, Tokeniser, Unigram, WordPiece, bert_words, characters, normaliser, uncut, words

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "design.md").read_text("utf-8")
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


def test_wordpiece_of_the_tokenizers_package():
    tokenizers = pytest.importorskip("tokenizers", reason="the reference tokenisers are not installed")
    ours = Tokeniser.train(WordPiece, TEXT, 300, split=bert_words, fallback=False, glue=" ")
    names = {ours.model.name(i): i for i in range(len(ours))}
    theirs = tokenizers.models.WordPiece(vocab=names, unk_token="[UNK]", max_input_chars_per_word=10**6)
    for word in [*bert_words(TEXT)[:300], "corollaries", "unknowñ"]:
        assert [t.id for t in theirs.tokenize(word)] == ours.model.ids(word)


def test_unigram_of_the_tokenizers_package():
    tokenizers = pytest.importorskip("tokenizers", reason="the reference tokenisers are not installed")
    ours = MODELS[2].model
    theirs = tokenizers.models.Unigram([("<unk>", 0.0), *zip(ours.pieces, ours.log_p, strict=True)], 0)
    for word in dict.fromkeys(words(TEXT)[:500]):
        assert [t.id + 255 for t in theirs.tokenize(word)] == ours.ids(word)


# the pipeline


def test_uniform_texts():
    assert normaliser("NFKC", lowercase=True, squeeze=True)("  Ｆoo\n BAR ") == "foo bar"
    assert normaliser(accents=False)("Crème brûlée") == "Creme brulee"
    tokeniser = Tokeniser.train(BPE, TEXT, 300, normalise=normaliser(lowercase=True))
    assert tokeniser.decode(tokeniser.encode("The ROOM")) == "the room"
