"""Losses of frequencies against counting by hand, and against the model that counts."""

import jax
import numpy as np
import pytest

from corollary.language import NGram, counted_losses

RNG = np.random.default_rng(0)
TEXT, OTHER = (tuple(RNG.integers(0, 4, (2, n))) for n in (50, 30))


@pytest.mark.parametrize("smoothing", [0.5, 2.0])
def test_by_hand(smoothing):
    with jax.enable_x64(True):
        found = counted_losses(TEXT, OTHER, vocabulary=5, smoothing=smoothing)
    for i, (x, y) in enumerate(zip(*OTHER, strict=True)):
        single = (np.sum(TEXT[1] == y) + smoothing / 5) / (50 + smoothing)
        pair = np.sum((TEXT[0] == x) & (TEXT[1] == y))
        after = (pair + smoothing * single) / (np.sum(TEXT[0] == x) + smoothing)
        np.testing.assert_allclose([found.unigram[i], found.bigram[i]], [-np.log(single), -np.log(after)], rtol=1e-12)


def test_the_means_on_the_text_itself_are_its_entropies():
    text = RNG.integers(0, 3, 200)
    with jax.enable_x64(True):
        single, after = counted_losses((text[:-1], text[1:]), (text[:-1], text[1:]), vocabulary=3)
        laws = NGram.fit(text, 2, vocabulary=3).laws
    share = np.bincount(text[1:]) / 199
    np.testing.assert_allclose(np.mean(single), -np.sum(share * np.log(share)), rtol=1e-12)
    np.testing.assert_allclose(after, -np.log(np.asarray(laws[1])[text[:-1], text[1:]]), rtol=1e-12)


def test_what_was_never_seen():
    single, after = counted_losses(([0, 0], [0, 0]), ([0, 7, 7], [1, 0, 1]), vocabulary=2)
    # no context 7 in the text: as the single token
    np.testing.assert_array_equal(single, [np.inf, 0, np.inf])
    np.testing.assert_array_equal(after, [np.inf, 0, np.inf])
    # pairs of a large vocabulary have room
    big = 2**17
    found = counted_losses(([big - 1], [big - 2]), ([big - 1, 0], [big - 2] * 2), vocabulary=big, smoothing=1.0)
    assert found.bigram[0] < found.bigram[1] == found.unigram[1]


def test_one_sentence():
    with pytest.raises(ValueError, match="data y must hold labels from 0 to 2"):
        counted_losses((TEXT[0], TEXT[1] % 3), OTHER, vocabulary=3)
    with pytest.raises(TypeError, match=r"text must be a pair \(x, y\)"):
        counted_losses(TEXT[0], OTHER, vocabulary=4)
    with pytest.raises(ValueError, match="smoothing must be"):
        counted_losses(TEXT, OTHER, vocabulary=4, smoothing=-1.0)
    with pytest.raises(ValueError, match="text x must not be empty"):
        counted_losses(([], []), OTHER, vocabulary=4)
