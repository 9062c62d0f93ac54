"""Keras models of every style are read: outputs and gradients against Keras's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network, Subject

keras = pytest.importorskip("keras", reason="keras is not installed: pip install 'corollary[keras]'")
if keras.backend.backend() != "jax":
    pytest.skip("keras was imported with another backend", allow_module_level=True)
layers = keras.layers
N = 6


@pytest.fixture(autouse=True)
def seeded():
    keras.utils.set_random_seed(0)


def mlp():
    return keras.Sequential(
        [
            keras.Input((5,)),
            layers.Dense(7, activation="tanh"),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Dense(3),
        ]
    )


def functional():
    a, b = keras.Input((4,), name="a"), keras.Input((3,), name="b")
    return keras.Model([a, b], layers.Dense(2)(layers.Concatenate()([layers.Dense(5, activation="relu")(a), b])))


def by_names():
    a, b = keras.Input((4,), name="a"), keras.Input((3,), name="b")
    return keras.Model({"a": a, "b": b}, layers.Dense(2)(layers.Concatenate()([a, b])))


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner, self.drop = layers.Dense(3), layers.Dropout(0.5)

    def call(self, a, b, training=True):
        return self.drop(self.inner(a), training=training) + b


def subclassed():
    model = Subclassed()
    model(np.zeros((1, 4), np.float32), np.zeros((1, 3), np.float32))
    return model


def recurrent():
    return keras.Sequential([keras.Input((6,), dtype="int32"), layers.Embedding(9, 4), layers.LSTM(5), layers.Dense(2)])


def attention():
    x = keras.Input((5, 8))
    seen = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x))
    return keras.Model(x, layers.Dense(2)(layers.GlobalAveragePooling1D()(seen)))


def draw(*shape):
    return np.random.default_rng(len(shape) + shape[-1]).normal(size=(N, *shape)).astype(np.float32)


WORDS = np.arange(N * 6, dtype=np.int32).reshape(N, 6) % 9
CASES = {
    "sequential": (mlp, draw(5), lambda m, x: m(x, training=False)),
    "functional": (functional, (draw(4), draw(3)), lambda m, x: m(list(x), training=False)),
    "by names": (by_names, {"a": draw(4), "b": draw(3)}, lambda m, x: m(x, training=False)),
    "subclassed": (subclassed, (draw(4), draw(3)), lambda m, x: m(*x, training=False)),
    "subclassed by names": (subclassed, {"a": draw(4), "b": draw(3)}, lambda m, x: m(**x, training=False)),
    "embedding and LSTM": (recurrent, WORDS, lambda m, x: m(x, training=False)),
    "attention": (attention, draw(5, 8), lambda m, x: m(x, training=False)),
}


@pytest.mark.parametrize("case", CASES)
def test_outputs_and_gradients(case):
    make, x, own = CASES[case]
    model = make()
    for variable in model.variables:  # nothing agrees because it is zero, or a statistic one
        if variable.dtype == "float32":
            noise = np.random.default_rng(len(variable.shape)).uniform(0.01, 0.3, variable.shape)
            variable.assign(variable + noise.astype(np.float32))
    network = Network.from_keras(model, jax.tree.map(lambda a: a[0], x))

    def weighted(out):
        return jnp.sum(np.cos(np.arange(out.size)).reshape(out.shape) * out), out

    def loss(values):
        with keras.StatelessScope(list(zip(model.trainable_variables, values, strict=True))):
            return weighted(own(model, x))

    ours = jax.grad(lambda p: weighted(jax.vmap(network.with_params(p))(x)), has_aux=True)
    found, out = jax.jit(ours)(network.params)
    values = [v.value for v in model.trainable_variables]
    expected, theirs = jax.jit(jax.grad(loss, has_aux=True))(values)
    # float32 in another order of summation
    np.testing.assert_allclose(out, theirs, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(jax.jit(lambda x: network.on_batch(x))(x), theirs, rtol=1e-5, atol=1e-5)

    assert len(found) == len(expected)
    for variable, gradient in zip(model.trainable_variables, expected, strict=True):
        (name,) = [n for n in found if variable.path.endswith(n)]
        np.testing.assert_allclose(found[name], gradient, rtol=1e-4, atol=1e-5 * max(1, np.abs(gradient).max()))


def test_what_is_not_trained_is_a_buffer():
    model = mlp()
    model.layers[0].trainable = False
    network = Network.from_keras(model, np.zeros(5))
    assert sum(leaf.size for leaf in jax.tree.leaves(network.params)) == 2 * 7 + 7 * 3 + 3
    assert any("moving_mean" in name for name in network.buffers)
    assert any("seed" in name for name in network.buffers)
    assert any(name.endswith("kernel") for name in network.buffers)


def test_two_models_of_one_kind_match():
    x = draw(5)
    model = mlp()
    initial = keras.models.clone_model(model)
    read = lambda model: Network.from_keras(model, x[0])  # noqa: E731
    subject = Subject(read(model), "cross_entropy", (x, np.arange(N) % 3), initial=read(initial))
    assert subject.size == 5 * 7 + 7 + 2 * 7 + 7 * 3 + 3


def test_mixed_precision_has_outputs_in_single_precision():
    x = draw(5)
    model = keras.Sequential([keras.Input((5,)), layers.Dense(3, dtype="mixed_bfloat16")])
    out = jax.vmap(Network.from_keras(model, x[0]))(x)
    assert (model(x).dtype, out.dtype) == (jnp.bfloat16, np.float32)
    np.testing.assert_allclose(out, model(x).astype(np.float32), rtol=0.02, atol=0.02)  # eight bits of mantissa


def test_batch_statistics_recomputed():
    """Normalised by their batch, with dropout off; the model is left as it was."""
    x = 3 * draw(5) + 1
    model = mlp()
    first, norm, _, last = model.layers
    network = Network.from_keras(model, x[0])
    hidden = np.asarray(first(x))
    normal = (hidden - hidden.mean(0)) / np.sqrt(hidden.var(0) + norm.epsilon)
    expected = normal @ np.asarray(last.kernel) + np.asarray(last.bias)
    np.testing.assert_allclose(network.recomputed(network.params, network.buffers, x), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(network.on_batch(x), model(x, training=False), rtol=1e-5, atol=1e-5)
    assert "call" not in vars(norm)
    assert Network.from_keras(two_outputs(), np.zeros(4), output="size").recomputed is None


def two_outputs():
    x = keras.Input((4,))
    return keras.Model(x, {"class": layers.Dense(3)(x), "size": layers.Dense(1)(x)})


def test_one_of_several_outputs():
    model, x = two_outputs(), draw(4)
    network = Network.from_keras(model, x[0], output="size")
    np.testing.assert_allclose(jax.vmap(network)(x), model(x)["size"], rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="several outputs, class, size: choose one of them with output="):
        Network.from_keras(model, x[0])
    with pytest.raises(ValueError, match="output must be one of class, size, got 'other'"):
        Network.from_keras(model, x[0], output="other")


def test_one_sentence(monkeypatch):
    x = np.zeros(5)
    with pytest.raises(TypeError, match="model must be a Keras 3 model, got int"):
        Network.from_keras(1, x)
    with pytest.raises(ValueError, match="is not built, and has no parameters yet"):
        Network.from_keras(keras.Sequential([layers.Dense(3)]), x)
    with pytest.raises(ValueError, match="has no trainable variables"):
        Network.from_keras(keras.Sequential([keras.Input((5,)), layers.Activation("relu")]), x)
    with pytest.raises(ValueError, match=r"the model failed on one example, as a batch of shape \(1, 4\): "):
        Network.from_keras(mlp(), x[1:])
    with pytest.raises(TypeError, match="example must be an array of numbers, got str"):
        Network.from_keras(mlp(), "x")
    with pytest.raises(ValueError, match="the network has one output, there is none called 'class'"):
        Network.from_keras(mlp(), x, output="class")
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    with pytest.raises(ValueError, match="Keras runs on torch here.*set the environment variable KERAS_BACKEND=jax"):
        Network.from_keras(mlp(), x)
