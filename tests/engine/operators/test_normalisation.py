"""Normalisation beside PyTorch's."""

import numpy as np
import torch
from torch.nn import functional as F

from corollary._engine.operators.normalisation import batch_norm, group_norm, instance_norm, layer_norm, rms_norm


def test_by_stored_statistics(agrees, draw):
    agrees(
        lambda x, s, b: batch_norm(x, np.arange(3.0), np.arange(1.0, 4.0), s, b, 1e-3),
        lambda x, s, b: F.batch_norm(
            x, torch.tensor(np.arange(3.0)), torch.tensor(np.arange(1.0, 4.0)), s, b, eps=1e-3
        ),
        draw(2, 3, 4, 5),
        draw(3),
        draw(3),
    )


def test_by_groups_and_by_channels(agrees, draw):
    agrees(
        lambda x, s, b: group_norm(x, 2, s, b),
        lambda x, s, b: F.group_norm(x, 2, s, b),
        draw(2, 4, 5),
        draw(4),
        draw(4),
    )
    agrees(instance_norm, lambda x, s, b: F.instance_norm(x, weight=s, bias=b), draw(2, 3, 4, 5), draw(3), draw(3))


def test_by_the_last_axes(agrees, draw):
    x, s, b = draw(2, 3, 4), draw(3, 4), draw(3, 4)
    agrees(lambda x, s, b: layer_norm(x, (-2, -1), s, b)[0], lambda x, s, b: F.layer_norm(x, (3, 4), s, b), x, s, b)
    agrees(lambda x, s: rms_norm(x, -1, s, 1e-6), lambda x, s: F.rms_norm(x, (4,), s, 1e-6), x, draw(4))
    _, mean, inverse = layer_norm(x, -1)
    np.testing.assert_allclose(mean, x.mean(-1, keepdims=True), atol=1e-6)
    np.testing.assert_allclose(inverse, 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5), rtol=1e-5)
