from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from corollary.language import BPE, Tokeniser, Unigram, Whole, WordPiece, bert_words, characters, words

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "design.md").read_text("utf-8")
MODELS = [Tokeniser.train(m, TEXT, 500) for m in (BPE, WordPiece, Unigram)]


def test_sizes_and_compression():
    for tokeniser in MODELS:
        assert len(tokeniser) == 500
        assert tokeniser.encode(TEXT).size < 0.7 * len(TEXT)  # 500 tokens, 256 of them bytes, of 9,000 characters


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
