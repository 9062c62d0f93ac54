import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.attention import LanguageModel, TokenEmbedding, in_dtype, next_token_loss, token_cross_entropy

KEY = jax.random.key(0)
TOKENS = np.array([[3, 1, 4, 1, 0, 2], [2, 0, 4, 4, 1, 3]])


@pytest.fixture(scope="module")
def model():
    with jax.enable_x64(True):
        return LanguageModel(5, 6, 8, 2, 2, key=KEY, dropout=0.2)


def test_one_token_at_a_time_is_the_whole(model):
    @eqx.filter_jit
    def run(model, tokens):
        steps = jax.lax.scan(lambda cache, token: model.step(token, cache)[::-1], model.cache(), tokens)[1]
        return model(tokens), steps

    full, steps = run(model, jnp.asarray(TOKENS[0]))
    assert full.shape == (6, 5)
    np.testing.assert_allclose(full, steps, rtol=1e-12, atol=1e-14)


def test_loss_is_the_mean_surprise(model):
    @eqx.filter_jit
    def run(model):
        inputs = jnp.array([[5, *row[:-1]] for row in TOKENS])  # 5 is the start token
        return (
            jax.vmap(model)(inputs),
            jax.vmap(model)(TOKENS),
            next_token_loss(model, TOKENS),
            next_token_loss(model, TOKENS, start=False),
            jax.vmap(model.log_probability)(TOKENS),
            next_token_loss(model, TOKENS, key=KEY),
        )

    started, plain, loss, pieces, log_probability, dropped = run(model)
    assert abs(dropped - loss) > 1e-6
    p = jax.nn.softmax(started)
    surprise = -np.log(np.take_along_axis(np.asarray(p), TOKENS[..., None], 2))
    np.testing.assert_allclose(loss, surprise.mean(), rtol=1e-12)
    np.testing.assert_allclose(log_probability, -surprise.sum((1, 2)), rtol=1e-12)
    later = -np.log(np.take_along_axis(np.asarray(jax.nn.softmax(plain))[:, :-1], TOKENS[:, 1:, None], 2))
    np.testing.assert_allclose(pieces, later.mean(), rtol=1e-12)


def test_half_precision():
    single = in_dtype(LanguageModel(5, 6, 8, 2, 1, key=KEY), jnp.float32)

    def loss(model, dtype=jnp.bfloat16):
        return next_token_loss(model, TOKENS, dtype=dtype)

    half, exact = eqx.filter_jit(lambda model: (loss(model), loss(model, None)))(single)
    assert half.dtype == jnp.float32
    slope = eqx.filter_eval_shape(eqx.filter_grad(loss), single)
    assert {a.dtype for a in jax.tree.leaves(slope)} == {jnp.dtype(jnp.float32)}
    # 2^-8 is the rounding of one bfloat16; the logits are sums of products of a few dozen of them
    np.testing.assert_allclose(half, exact, rtol=0.02)


def test_cross_entropy_of_large_logits():
    logits = jnp.array([[1000.0, 0.0], [0.0, 1000.0]])
    np.testing.assert_allclose(token_cross_entropy(logits, jnp.array([0, 0])), [0.0, 1000.0])


def test_refused(model):
    with pytest.raises(ValueError, match="tokens must hold labels from 0 to 5"):
        model(np.array([6]))
    with pytest.raises(ValueError, match="tokens must hold at most 6 tokens"):
        model(np.zeros(7, int))
    with pytest.raises(ValueError, match=r"takes at most 6 tokens, .* and 7 are asked for: .*LastTokens\(model, 6\)"):
        model.cache(7)
    with pytest.raises(ValueError, match="token must hold labels from 0 to 5"):
        model.step(6, model.cache(1))
    with pytest.raises(ValueError, match="all 1 places are filled"):
        model.step(0, model.cache(1)._replace(position=jnp.asarray(1)))
    with pytest.raises(ValueError, match=r"sequences must have shape \(batch, T\)"):
        next_token_loss(model, TOKENS[0])
    with pytest.raises(ValueError, match="sequences must be of two tokens or more"):
        next_token_loss(model, TOKENS[:, :1], start=False)
    with pytest.raises(ValueError, match=r"targets must have shape \(2,\)"):
        token_cross_entropy(jnp.zeros((2, 3)), jnp.zeros(3, int))
    with pytest.raises(ValueError, match="positions must be one of"):
        TokenEmbedding(5, 4, 6, key=KEY, positions="some")
    with pytest.raises(ValueError, match="vocabulary must be at least 1"):
        LanguageModel(0, 6, 8, 2, 2, key=KEY)
