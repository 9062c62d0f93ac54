"""Log-linear models against their formula."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.language import LogLinear, perplexity

KEY = jax.random.key(0)


def test_logits_by_hand():
    last, mean = LogLinear(4, 2, key=KEY), LogLinear(4, 2, "mean", key=KEY)
    tokens = np.array([3, 0, 2])
    np.testing.assert_allclose(last(tokens)[1], last.vectors @ last.contexts[0], rtol=1e-12)
    np.testing.assert_allclose(mean(tokens)[2], mean.vectors @ mean.contexts[tokens].mean(0), rtol=1e-12)
    np.testing.assert_allclose(mean(tokens)[0], last(tokens)[0], rtol=1e-12)
    rows = jax.nn.log_softmax(last(tokens))
    np.testing.assert_allclose(perplexity(last, tokens), np.exp(-(rows[0, 0] + rows[1, 2]) / 2), rtol=1e-12)


def test_context_of_the_caller():
    own = LogLinear(4, 2, lambda tokens: jnp.stack([tokens, tokens**2], 1) / 4.0, key=KEY)
    assert own.contexts is None
    np.testing.assert_allclose(own([2, 1])[1], own.vectors @ np.array([0.25, 0.25]), rtol=1e-12)
    with pytest.raises(ValueError, match=r"context must give one vector for each token, \(1, 2\), got \(1,\)"):
        LogLinear(4, 2, lambda tokens: tokens, key=KEY)([1])
    with pytest.raises(ValueError, match="context must be one of 'last', 'mean', got 'all'"):
        LogLinear(4, 2, "all", key=KEY)
    with pytest.raises(ValueError, match="tokens must hold labels from 0 to 3"):
        own([4])
