"""One small network, built in each library, is one subject: the same outputs, loss and gradients.

That its audit is the same too is held in test_doors.py.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier, MLPRegressor

from corollary import Network, Subject
from corollary.audit import SubjectError

N, D, HIDDEN, CLASSES = 30, 5, 7, 3


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, D)), np.arange(N) % CLASSES


@pytest.fixture(scope="module")
def fitted(data):
    """The network that all others are made from, fitted with scikit-learn."""
    estimator = MLPClassifier((HIDDEN,), activation="tanh", max_iter=5, random_state=0, alpha=0.1)
    with pytest.warns(match="converge"):
        return estimator.fit(*data)


@pytest.fixture(scope="module")
def expected(fitted, data):
    """Outputs, loss and gradients written out with NumPy, layer by layer."""
    (x, y), (w, v), (b, c) = data, fitted.coefs_, fitted.intercepts_
    hidden = np.tanh(x @ w + b)
    logits = hidden @ v + c
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(p, fitted.predict_proba(x), rtol=1e-12)
    loss = -np.log(p[np.arange(N), y]).mean()
    delta = (p - np.eye(CLASSES)[y]) / N
    back = delta @ v.T * (1 - hidden**2)
    gradient = {"w": x.T @ back, "b": back.sum(axis=0), "v": hidden.T @ delta, "c": delta.sum(axis=0)}
    return logits, loss, gradient


def same(subject, expected, names, *, transposed, rtol):
    """`names` are the leaves of the gradient in the order w, b, v, c; some libraries keep weights transposed."""
    logits, loss, gradient = expected
    # rounding of sums of a few terms of size one, times the roughly ten operations of this network
    atol = rtol
    np.testing.assert_allclose(subject.outputs(), logits, rtol=rtol, atol=atol)
    assert subject.mean_loss() == pytest.approx(loss, rel=rtol)
    found = jax.jit(jax.grad(subject.objective))(subject.params, subject.train)
    leaves = names(found.params if isinstance(found, Network) else found)
    for name, leaf in zip("wbvc", leaves, strict=True):
        leaf = leaf.T if transposed and leaf.ndim == 2 else leaf
        np.testing.assert_allclose(leaf, gradient[name], rtol=rtol, atol=atol)
    assert subject.size == D * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES
    assert subject.classes == CLASSES


@pytest.fixture(scope="module", autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def eqx_mlp(fitted):
    model = eqx.nn.MLP(D, CLASSES, HIDDEN, 1, activation=jnp.tanh, key=jax.random.key(0))
    where = lambda m: [a for layer in m.layers for a in (layer.weight, layer.bias)]  # noqa: E731
    arrays = [jnp.asarray(a) for w, b in zip(fitted.coefs_, fitted.intercepts_, strict=True) for a in (w.T, b)]
    return eqx.tree_at(where, model, arrays), where


RTOL = 1e3 * np.finfo(float).eps


def test_sklearn(fitted, data, expected):
    subject = Subject.from_sklearn(fitted, data, data)
    same(subject, expected, lambda g: [g[0]["w"], g[0]["b"], g[1]["w"], g[1]["b"]], transposed=False, rtol=RTOL)
    assert subject.error() == pytest.approx(1 - fitted.score(*data))
    np.testing.assert_array_equal(subject.predict(data[0]), fitted.predict(data[0]))
    assert "penalty" in subject.notes[0]
    assert subject.batch_size == N
    assert subject.learning_rate is None  # Adam's is no step of gradient descent
    np.testing.assert_array_equal(subject.history["loss"], fitted.loss_curve_)
    drawn = subject.init(jax.random.key(1)).params
    bound = np.sqrt(6 / (D + HIDDEN))
    assert 0.8 * bound < np.abs(drawn[0]["w"]).max() <= bound


def test_equinox(fitted, data, expected):
    model, where = eqx_mlp(fitted)
    subject = Subject(
        model,
        "cross_entropy",
        data,
        initial=model,
        init=lambda key: eqx.nn.MLP(D, CLASSES, HIDDEN, 1, activation=jnp.tanh, key=key),
    )
    same(subject, expected, where, transposed=True, rtol=RTOL)
    jax.tree.map(np.testing.assert_array_equal, subject.initial_params, subject.params)
    start = subject.with_params(subject.init(jax.random.key(1)))
    assert start.mean_loss() != pytest.approx(subject.mean_loss())


def test_flax_linen(fitted, data, expected):
    linen = pytest.importorskip("flax.linen")

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x, train):
            x = linen.tanh(linen.Dense(HIDDEN, param_dtype=float)(x))
            x = linen.Dropout(0.5, deterministic=not train)(x)
            return linen.Dense(CLASSES, param_dtype=float)(x)

    params = {f"Dense_{i}": {"kernel": fitted.coefs_[i], "bias": fitted.intercepts_[i]} for i in range(2)}
    network = Network.from_flax(Net(), data[0][0], variables={"params": params})
    subject = Subject(network, "cross_entropy", data)
    names = lambda g: [g[f"Dense_{i}"][k] for i in range(2) for k in ("kernel", "bias")]  # noqa: E731
    same(subject, expected, names, transposed=False, rtol=RTOL)
    frozen = pytest.importorskip("flax.core").freeze({"params": params})
    again = Subject(network, "cross_entropy", data, initial=Network.from_flax(Net(), data[0][0], variables=frozen))
    jax.tree.map(np.testing.assert_array_equal, again.initial_params, subject.params)
    with pytest.raises(ValueError, match="needs variables=, a mapping with 'params'"):
        Network.from_flax(Net(), data[0][0])


def test_flax_nnx(fitted, data, expected):
    nnx = pytest.importorskip("flax.nnx")

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(D, HIDDEN, param_dtype=float, rngs=rngs)
            self.norm = nnx.BatchNorm(HIDDEN, use_scale=False, use_bias=False, epsilon=0.0, rngs=rngs)
            self.drop = nnx.Dropout(0.5, rngs=rngs)
            self.second = nnx.Linear(HIDDEN, CLASSES, param_dtype=float, rngs=rngs)

        def __call__(self, x):
            return self.second(self.drop(self.norm(nnx.tanh(self.first(x)))))

    net = Net(nnx.Rngs(0))
    for layer, w, b in zip((net.first, net.second), fitted.coefs_, fitted.intercepts_, strict=True):
        layer.kernel, layer.bias = nnx.Param(jnp.asarray(w)), nnx.Param(jnp.asarray(b))
    # running statistics of 0 and 1 are those of a network that was not trained on: the identity in inference mode
    read = lambda net: Network.from_flax(net, data[0][0])  # noqa: E731
    subject = Subject(read(net), "cross_entropy", data, init=lambda key: read(Net(nnx.Rngs(key))), initial=read(net))
    names = lambda g: [g[k][p] for k in ("first", "second") for p in ("kernel", "bias")]  # noqa: E731
    same(subject, expected, names, transposed=False, rtol=RTOL)
    assert net.drop.deterministic is False  # the module that was given is left as it was
    assert subject.with_params(subject.init(jax.random.key(1))).mean_loss() != pytest.approx(subject.mean_loss())
    with pytest.raises(ValueError, match="leave out variables, which is for Linen"):
        Network.from_flax(net, data[0][0], variables={})


def test_flax_refuses_other_things(data):
    pytest.importorskip("flax")
    with pytest.raises(TypeError, match="must be a Flax module, NNX or Linen, got function"):
        Network.from_flax(lambda x: x, data[0][0])


def torch_net(fitted):
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'corollary[torch]'")
    net = torch.nn.Sequential(torch.nn.Linear(D, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, CLASSES)).double()
    with torch.no_grad():
        for layer, w, b in zip((net[0], net[2]), fitted.coefs_, fitted.intercepts_, strict=True):
            layer.weight.copy_(torch.as_tensor(w.T))
            layer.bias.copy_(torch.as_tensor(b))
    return torch, net


def test_onnx(fitted, data, expected):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'corollary[onnx]'")
    (w, v), (b, c) = fitted.coefs_, fitted.intercepts_
    stored = [onnx.numpy_helper.from_array(a, name) for name, a in dict(w=w, b=b, v=v, c=c).items()]
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Gemm", ["x", "w", "b"], ["a"]),
            onnx.helper.make_node("Tanh", ["a"], ["h"]),
            onnx.helper.make_node("Gemm", ["h", "v", "c"], ["out"]),
        ],
        "net",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.DOUBLE, ["n", D])],
        [onnx.helper.make_tensor_value_info("out", onnx.TensorProto.DOUBLE, ["n", CLASSES])],
        stored,
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    subject = Subject(Network.from_onnx(model, data[0][0]), "cross_entropy", data)
    same(subject, expected, lambda g: [g[k] for k in "wbvc"], transposed=False, rtol=RTOL)


TORCH = ("0.weight", "0.bias", "2.weight", "2.bias")


def test_torch(fitted, data, expected):
    torch, net = torch_net(fitted)
    network = Network.from_torch(net, torch.as_tensor(data[0][0]))
    subject = Subject(network, "cross_entropy", data, initial=Network.from_torch(net, data[0][0]))
    same(subject, expected, lambda g: [g[k] for k in TORCH], transposed=True, rtol=RTOL)
    jax.tree.map(np.testing.assert_array_equal, subject.initial_params, subject.params)
    for bad, sentence in (
        (lambda: Network.from_torch(len, data[0][0]), "must be a torch.nn.Module"),
        (lambda: Network.from_torch(torch.nn.Tanh(), data[0][0]), "has no parameters that require gradients"),
        (lambda: Network.from_torch(net, data[0].astype(str)[0]), "must hold numbers"),
        (lambda: Network.from_torch(net, data[0][0, 1:]), "could not be called on a batch of one example"),
    ):
        with pytest.raises((TypeError, ValueError), match=sentence):
            bad()


def test_torch_frozen_and_unused_parameters(fitted, data):
    torch, layers = torch_net(fitted)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.unused = layers, torch.nn.Parameter(torch.ones(2))

        def forward(self, x):
            return self.layers(x)

    net = Net()
    layers[0].weight.requires_grad_(False)
    network = Network.from_torch(net, data[0][0])
    assert sorted(network.params) == ["layers.0.bias", "layers.2.bias", "layers.2.weight"]
    assert "unused" in network.notes[-1]


def test_torch_convolutional_network(data):
    """In float32, with running statistics, which are no parameters, and GELU."""
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'corollary[torch]'")
    nn = torch.nn
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, stride=2),
        nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(8, 3),
    )  # fmt: skip
    x, y = torch.randn(16, 2, 10, 10), torch.arange(16) % 3
    net(2 * x + 1)  # statistics that are not 0 and 1
    with jax.enable_x64(False):
        subject = Subject(Network.from_torch(net, x[0]), "cross_entropy", (x.numpy(), y.numpy()))
        gradient = jax.jit(jax.grad(subject.objective))(subject.params, subject.train).params
    assert net.training  # left as it was
    out = net.eval()(x)
    nn.functional.cross_entropy(out, y).backward()
    # float32 in another order of summation
    tolerance = dict(rtol=1e-4, atol=1e3 * np.finfo(np.float32).eps)
    np.testing.assert_allclose(subject.outputs(), out.detach().numpy(), **tolerance)
    assert set(gradient) == {name for name, _ in net.named_parameters()}
    for name, p in net.named_parameters():
        np.testing.assert_allclose(gradient[name], p.grad.numpy(), **tolerance)


def test_sklearn_of_words_two_classes_and_numbers(data):
    x, y = data
    two = MLPClassifier((4,), max_iter=3, random_state=0, solver="sgd", momentum=0.0, learning_rate_init=0.01)
    words = np.array(["no", "yes"])[y % 2]
    with pytest.warns(match="converge"):
        two.fit(x, words)
    subject = Subject.from_sklearn(two, (x, words))
    assert (subject.classes, subject.learning_rate) == (2, 0.01)
    p = two.predict_proba(x)[np.arange(N), y % 2]
    assert subject.mean_loss() == pytest.approx(-np.log(p).mean(), rel=1e-12)
    assert subject.error() == pytest.approx(1 - two.score(x, words))
    assert Subject.from_sklearn(two, (x, words), learning_rate=0.5).learning_rate == 0.5
    with pytest.raises(SubjectError, match="test y must hold the labels .* no, yes, got maybe"):
        Subject.from_sklearn(two, (x, words), (x[:1], ["maybe"]))
    for targets in (x[:, 0], x[:, :2]):
        with pytest.warns(match="converge"):
            regressor = MLPRegressor(hidden_layer_sizes=(4,), max_iter=3, random_state=0, alpha=0).fit(x, targets)
        subject = Subject.from_sklearn(regressor, (x, targets))
        mse = np.mean((regressor.predict(x) - targets) ** 2)
        assert subject.mean_loss() == pytest.approx(mse / 2, rel=1e-12)
        assert subject.error() == pytest.approx(mse, rel=1e-12)
        assert subject.classes is None
        assert subject.notes == ()


def test_sklearn_refuses(data):
    x, y = data
    with pytest.raises(ValueError, match="is not fitted"):
        Subject.from_sklearn(MLPClassifier(), data)
    with pytest.raises(TypeError, match="must be an estimator of scikit-learn, got int"):
        Subject.from_sklearn(1, data)
    with pytest.warns(match="converge"):
        several = MLPClassifier((4,), max_iter=2).fit(x, np.stack([y > 0, y > 1], 1).astype(int))
    with pytest.raises(SubjectError, match="multi-label"):
        Subject.from_sklearn(several, data)
    with pytest.warns(match="converge"):
        poisson = MLPRegressor("poisson", hidden_layer_sizes=(4,), max_iter=2).fit(x, y)
    with pytest.raises(SubjectError, match="must have the loss 'squared_error', got 'poisson'"):
        Subject.from_sklearn(poisson, data)


def test_equinox_in_inference_mode_with_a_state(data):
    class Net(eqx.Module):
        first: eqx.nn.Linear
        norm: eqx.nn.BatchNorm
        drop: eqx.nn.Dropout

        def __call__(self, x, state):
            x, state = self.norm(self.first(x), state)
            return self.drop(x), state

    key = jax.random.key(0)
    model, state = eqx.nn.make_with_state(
        lambda: Net(
            eqx.nn.Linear(D, CLASSES, key=key),
            eqx.nn.BatchNorm(CLASSES, "batch", mode="ema", momentum=0.0),
            eqx.nn.Dropout(),
        )
    )()
    _, state = jax.vmap(
        lambda x, s: model.norm(model.first(x), s), in_axes=(0, None), out_axes=(0, None), axis_name="batch"
    )(jnp.asarray(data[0]), state)
    subject = Subject(Network.from_equinox(model, state), "cross_entropy", data)
    assert subject.size == D * CLASSES + CLASSES + 2 * CLASSES
    mean, variance = np.mean(z := data[0] @ model.first.weight.T + model.first.bias, 0), np.var(z, 0)
    np.testing.assert_allclose(subject.outputs(), (z - mean) / np.sqrt(variance + 1e-5), rtol=1e-5, atol=1e-5)
    with pytest.raises(TypeError, match="must be an Equinox module that can be called, got tuple"):
        Network.from_equinox((1,), state)


def test_equinox_only_what_is_trainable(fitted, data):
    model, _ = eqx_mlp(fitted)
    matrices = Subject(model, "cross_entropy", data, trainable=lambda a: eqx.is_inexact_array(a) and a.ndim == 2)
    assert matrices.size == D * HIDDEN + HIDDEN * CLASSES


def test_in_single_precision(fitted, data):
    with jax.enable_x64(False):
        subject = Subject.from_sklearn(fitted, data)
        assert subject.dtype == np.float32
        assert subject.train[0].dtype == np.float32
