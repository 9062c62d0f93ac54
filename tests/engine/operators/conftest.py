"""Outputs and derivatives beside those of PyTorch, in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch


@pytest.fixture
def agrees():
    def check(ours, theirs, *arrays, tolerance=1e-9):
        """`ours` and `theirs` of the same arrays give the same, and so do gradients of a weighted sum of it."""
        tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
        expected = theirs(*tensors)
        weights = np.random.default_rng(1).normal(size=expected.shape)
        slopes = torch.autograd.grad((expected * torch.tensor(weights)).sum(), tensors)
        with jax.enable_x64(True):

            def weighted(arrays):
                y = ours(*arrays)
                return jnp.sum(y * weights), y

            (_, y), found = jax.jit(jax.value_and_grad(weighted, has_aux=True))([jnp.asarray(a) for a in arrays])
        np.testing.assert_allclose(y, expected.detach().numpy(), rtol=tolerance, atol=tolerance)
        for a, b in zip(found, slopes, strict=True):
            np.testing.assert_allclose(a, b.numpy(), rtol=tolerance, atol=tolerance)

    return check


@pytest.fixture
def draw():
    rng = np.random.default_rng(0)
    return lambda *shape: rng.normal(size=shape)
