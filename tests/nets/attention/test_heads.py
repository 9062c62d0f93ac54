import jax
import numpy as np

from corollary.nets.attention import ClassHead, SpanHead, TokenHead, best_span

KEY = jax.random.key(0)


def test_best_span_is_the_best_of_all():
    scores = np.random.default_rng(0).normal(size=(50, 2, 7))
    found = jax.jit(jax.vmap(best_span))(scores[:, 0], scores[:, 1])
    for (s, e), i, j, score in zip(scores, *found, strict=True):
        best = max((s[a] + e[b], a, b) for a in range(7) for b in range(a, 7))
        assert (i, j) == best[1:]
        np.testing.assert_allclose(score, best[0])


def test_heads_are_linear_maps_of_tokens():
    x = np.random.default_rng(0).normal(size=(4, 3))
    word, whole, span = TokenHead(3, 5, key=KEY), ClassHead(3, 2, key=KEY), SpanHead(3, key=KEY)
    np.testing.assert_allclose(word(x), x @ word.layer.weight.T + word.layer.bias)
    np.testing.assert_allclose(whole(x), whole.layer.weight @ x[0] + whole.layer.bias)
    np.testing.assert_allclose(span(x), (x @ span.layer.weight.T + span.layer.bias).T)
