import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.attention import Transformer, teacher_forcing_loss

KEY = jax.random.key(0)
SOURCE, TARGET = np.array([[4, 2, 0, 3], [1, 1, 2, 0]]), np.array([[3, 1, 1], [0, 2, 3]])
DATA = SOURCE, TARGET


@pytest.fixture(scope="module")
def model():
    with jax.enable_x64(True):
        return Transformer(5, 4, 6, 8, 2, 2, key=KEY, hidden=8, order="pre")


def test_one_token_at_a_time_is_the_whole(model):
    @eqx.filter_jit
    def run(model, source, target):
        inputs = jnp.concatenate([jnp.array([model.start]), target[:-1]])
        language = model.given(source)
        steps = jax.lax.scan(lambda cache, token: language.step(token, cache)[::-1], language.cache(3), inputs)[1]
        return model(source, target), steps, model.log_probability(source, target)

    full, steps, log_probability = run(model, jnp.asarray(SOURCE[0]), jnp.asarray(TARGET[0]))
    assert full.shape == (3, 4)
    np.testing.assert_allclose(full, steps, rtol=1e-12, atol=1e-14)
    surprise = [np.log(p[y]) for p, y in zip(jax.nn.softmax(full), TARGET[0], strict=True)]
    np.testing.assert_allclose(log_probability, sum(surprise), rtol=1e-12)


def test_generates_the_most_probable_token(model):
    logits = eqx.filter_jit(lambda model, source, tokens: model.decode(model.encode(source), tokens))
    source, tokens = jnp.asarray(SOURCE[0]), [model.start]
    for _ in range(5):  # padded to one length, so that one program serves all
        padded = jnp.array(tokens + [0] * (5 - len(tokens)))
        tokens.append(int(logits(model, source, padded)[len(tokens) - 1].argmax()))
    found = eqx.filter_jit(lambda model, source: model.generate(source, 5))(model, source)
    assert found.tolist() == tokens[1:]
    ended = eqx.filter_jit(lambda model, source: model.generate(source, 5, end=tokens[1]))(model, source)
    assert ended.tolist() == [tokens[1]] * 5


def test_loss_is_the_mean_over_the_batch(model):
    @eqx.filter_jit
    def run(model, key):
        each = jax.vmap(model.log_probability)(SOURCE, TARGET)
        return teacher_forcing_loss(model, DATA), teacher_forcing_loss(model, DATA, key=key), each

    loss, dropped, each = run(model, KEY)
    np.testing.assert_allclose(loss, -each.sum() / TARGET.size, rtol=1e-12)
    assert dropped == loss  # a rate of 0 drops nothing


def test_refused(model):
    with pytest.raises(ValueError, match="target must hold labels from 0 to 3"):
        model(SOURCE[0], np.array([4]))
    with pytest.raises(ValueError, match="tokens must hold labels from 0 to 4"):
        model.encode(np.array([5]))
    with pytest.raises(ValueError, match="length must be from 1 to 6"):
        model.generate(SOURCE[0], 7)
    with pytest.raises(ValueError, match="end must be from 0 to 3"):
        model.generate(SOURCE[0], 3, end=4)
    with pytest.raises(ValueError, match=r"source must have shape \(2, S\)"):
        teacher_forcing_loss(model, (SOURCE[:1], TARGET))
    with pytest.raises(ValueError, match=r"context must have shape \(T, 8\)"):
        model.decoder(np.zeros((2, 8)), np.zeros((3, 7)))
