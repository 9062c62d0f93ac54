"""Flax modules of both interfaces: several inputs and outputs, statistics, dropout, tied weights, recurrence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network

pytest.importorskip("flax", reason="flax is not installed")
from flax import linen, nnx

N = 5
CLOSE = dict(rtol=1e-5, atol=1e-6)


def draw(*shape):
    return np.random.default_rng(shape[-1]).normal(size=(N, *shape)).astype(np.float32)


A, B = draw(4), draw(3)
KEY = jax.random.key(0)


def first(x):
    return jax.tree.map(lambda a: a[0], x)


class Trained(linen.Module):
    """Batch statistics and dropout, with the mode as an argument of the call or as a field."""

    train: bool | None = None

    @linen.compact
    def __call__(self, x, train=None):
        train = linen.merge_param("train", self.train, train)
        x = linen.BatchNorm(use_running_average=not train)(linen.Dense(6)(x))
        return linen.Dense(2)(linen.Dropout(0.5, deterministic=not train)(x))


def trained_variables():
    variables = Trained().init({"params": KEY, "dropout": KEY}, A, train=True)
    moved = Trained().apply(variables, 3 * A + 1, train=True, rngs={"dropout": KEY}, mutable=["batch_stats"])[1]
    return {**variables, **moved}


@pytest.mark.parametrize(
    "module", [Trained(), Trained(train=True), Trained(train=False)], ids=["argument", "on", "off"]
)
def test_linen_in_inference_mode(module):
    variables = trained_variables()
    network = Network.from_flax(module, A[0], variables=variables)
    np.testing.assert_allclose(jax.vmap(network)(A), Trained().apply(variables, A, train=False), **CLOSE)
    assert set(network.buffers) == {"batch_stats"}
    assert bool(network.notes) == (module.train is True)
    if module.train:
        assert "was put into inference mode: train=False" in network.notes[0]


class Deterministic(linen.Module):
    @linen.compact
    def __call__(self, x, *, deterministic: bool):
        return linen.Dropout(0.5, deterministic=deterministic)(linen.Dense(2)(x))


class Pair(linen.Module):
    @linen.compact
    def __call__(self, a, b, training=True):
        hidden = linen.relu(linen.Dense(6)(a))
        hidden = linen.Dropout(0.9, deterministic=not training)(hidden)
        return {"class": linen.Dense(2)(jnp.concatenate([hidden, b], -1)), "hidden": hidden}


class Tied(linen.Module):
    @linen.compact
    def __call__(self, words):
        table = linen.Embed(7, 4)
        return table.attend(linen.Dense(4)(table(words)).mean(-2))


def test_linen_inputs_and_outputs():
    variables = Deterministic().init(KEY, A, deterministic=True)
    network = Network.from_flax(Deterministic(), A[0], variables=variables)
    np.testing.assert_allclose(jax.vmap(network)(A), Deterministic().apply(variables, A, deterministic=True), **CLOSE)

    variables = Pair().init(KEY, A, B, training=False)
    expected = Pair().apply(variables, A, B, training=False)
    for x in ((A, B), {"b": B, "a": A}):
        for name in ("class", "hidden"):
            network = Network.from_flax(Pair(), first(x), variables=variables, output=name)
            np.testing.assert_allclose(jax.vmap(network)(x), expected[name], **CLOSE)
    with pytest.raises(ValueError, match="several outputs, class, hidden: choose one of them with output="):
        Network.from_flax(Pair(), (A[0], B[0]), variables=variables)


def test_linen_tied_weights_are_one():
    words = np.arange(N * 3).reshape(N, 3) % 7
    variables = Tied().init(KEY, words)
    network = Network.from_flax(Tied(), words[0], variables=variables)
    assert sum(leaf.size for leaf in jax.tree.leaves(network.params)) == 7 * 4 + 4 * 4 + 4
    np.testing.assert_allclose(jax.vmap(network)(words), Tied().apply(variables, words), **CLOSE)


class Convolutional(nnx.Module):
    def __init__(self, rngs):
        self.conv = nnx.Conv(2, 4, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.last = nnx.Linear(4, 2, rngs=rngs)

    def __call__(self, x):
        return self.last(self.drop(nnx.relu(self.norm(self.conv(x)))).mean((-3, -2)))


def test_nnx_with_statistics_and_dropout():
    x = draw(6, 6, 2)
    module = Convolutional(nnx.Rngs(0))
    module(2 * x + 1)  # statistics that are not 0 and 1
    network = Network.from_flax(module, x[0])
    assert module.drop.deterministic is False  # the module that was given is left as it was
    module.eval()
    np.testing.assert_allclose(jax.vmap(network)(x), module(x), **CLOSE)
    assert set(network.params) == {"conv", "norm", "last"}
    assert set(network.params["norm"]) == {"scale", "bias"}

    def loss(module):
        return jnp.sum(module(x)[:, 0])

    expected = nnx.to_pure_dict(nnx.grad(loss)(module))
    found = jax.grad(lambda p: jnp.sum(jax.vmap(network.with_params(p))(x)[:, 0]))(network.params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), found, expected)


class Recurrent(nnx.Module):
    def __init__(self, rngs):
        self.table = nnx.Embed(7, 4, rngs=rngs)
        self.steps = nnx.RNN(nnx.LSTMCell(4, 4, rngs=rngs))
        self.again = self.table  # tied

    def __call__(self, words, train=True):
        states = self.steps(self.table(words))
        states = states if not train else states * jnp.nan
        return self.again.attend(states[..., -1, :]), states


def test_nnx_recurrent_and_tied():
    words = np.arange(N * 3).reshape(N, 3) % 7
    module = Recurrent(nnx.Rngs(0))
    network = Network.from_flax(module, words[0], output=0)
    np.testing.assert_allclose(jax.vmap(network)(words), module(words, train=False)[0], **CLOSE)
    sizes = sum(leaf.size for leaf in jax.tree.leaves(nnx.state(module, nnx.Param)))
    assert sum(leaf.size for leaf in jax.tree.leaves(network.params)) == sizes
    assert len({"again", "table"} & set(network.params)) == 1


def test_sixteen_bits_are_raised():
    module = nnx.Linear(4, 2, param_dtype=jnp.bfloat16, dtype=jnp.bfloat16, rngs=nnx.Rngs(0))
    network = Network.from_flax(module, A[0])
    assert {leaf.dtype for leaf in jax.tree.leaves(network.params)} == {np.dtype(np.float32)}
    assert network.notes == ("parameters in bfloat16 were raised to float32.",)
    out = jax.vmap(network)(A)
    assert out.dtype == np.float32
    # eight bits of mantissa
    np.testing.assert_allclose(out, A @ network.params["kernel"] + network.params["bias"], rtol=0.05, atol=0.05)


class Both(nnx.Module):
    def __init__(self, rngs):
        self.layer = nnx.Linear(4, 3, rngs=rngs)

    def __call__(self, a, b):
        return self.layer(a) + b


def test_nnx_several_inputs():
    module = Both(nnx.Rngs(0))
    for x in ((A, B), {"a": A, "b": B}):
        np.testing.assert_allclose(jax.vmap(Network.from_flax(module, first(x)))(x), module(A, B), **CLOSE)


class Nothing(nnx.Module):
    def __call__(self, x):
        return x


class Unlucky(linen.Module):
    """Draws random numbers whatever the mode."""

    @linen.compact
    def __call__(self, x):
        return linen.Dense(2)(x) + jax.random.normal(self.make_rng("noise"), (2,))


def test_one_sentence():
    variables = {"params": linen.Dense(2).init(KEY, A)["params"]}
    for attempt, sentence in (
        (lambda: Network.from_flax(linen.Dense(2), A[0]), "a Linen module needs variables=, a mapping with 'params'"),
        (lambda: Network.from_flax(linen.Dense(2), A[0], variables=1), "a Linen module needs variables="),
        (
            lambda: Network.from_flax(linen.Dense(2), B[0], variables=variables),
            r"the module failed on one example, as a batch of shape \(1, 3\): ",
        ),
        (lambda: Network.from_flax(linen.Dense(3), A[0], variables=variables), "the module failed on one example"),
        (lambda: Network.from_flax(linen.Dense(2), "x", variables=variables), "example must be an array of numbers"),
        (lambda: Network.from_flax(linen.Dense(2), None, variables=variables), "example must be one example"),
        (lambda: Network.from_flax(Unlucky(), A[0], variables={"params": {"Dense_0": variables["params"]}}), "noise"),
        (lambda: Network.from_flax(Nothing(), A[0]), "the Nothing holds no nnx.Param, and so no parameters"),
        (lambda: Network.from_flax(nnx.Linear(4, 2, rngs=nnx.Rngs(0)), B[0]), "the module failed on one example"),
        (lambda: Network.from_flax(nnx.Rngs(0), A[0]), "must be a Flax module|must be called|holds no nnx.Param"),
        (
            lambda: Network.from_flax(Recurrent(nnx.Rngs(0)), np.zeros(3, int), output="other"),
            "output must be one of 0, 1, got 'other'",
        ),
    ):
        with pytest.raises((TypeError, ValueError), match=sentence) as caught:
            attempt()
        text = str(caught.value)
        assert text.endswith(".")
        assert "\n" not in text
