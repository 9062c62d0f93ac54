"""Layers in a loop against the same layers one after the other."""

import numpy as np
import pytest

from corollary.generative import AffineCoupling, Invertible1x1, LayerLoop, NormalisingFlow

MATRICES = np.eye(3) + 0.3 * np.random.default_rng(0).normal(size=(4, 3, 3))


def test_as_one_after_the_other():
    layers, z = [Invertible1x1(m) for m in MATRICES], np.random.default_rng(1).normal(size=(3, 2))
    apart, together = NormalisingFlow(layers, (3, 2)), NormalisingFlow([LayerLoop(layers)], (3, 2))
    for ours, theirs in zip(together.forward(z), apart.forward(z), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)
    np.testing.assert_allclose(together.inverse(apart.forward(z)[0]), z, rtol=1e-9)


def test_sentences():
    with pytest.raises(ValueError, match="layers must be one or more layers"):
        LayerLoop([])
    with pytest.raises(ValueError, match="layers must be of one kind"):
        LayerLoop([Invertible1x1(np.eye(2)), Invertible1x1(np.eye(3))])
    with pytest.raises(ValueError, match="layers must be of one kind"):
        LayerLoop([Invertible1x1(np.eye(2)), AffineCoupling([True, False], lambda z: z)])
    with pytest.raises(TypeError, match="a layer of a flow has forward and inverse"):
        LayerLoop([np.eye(2)])
