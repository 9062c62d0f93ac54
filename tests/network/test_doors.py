"""The same numbers through every door: one trained network, made with each library, has the same audit.

Findings may not depend on how a library names its parameters, in which order it keeps them, or whether it keeps a
matrix or its transpose. In float64, so that rounding does not hide what is not rounding.
"""

import re
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier

from corollary import Network, Subject
from corollary.audit import audit, run
from corollary.audit._budget import SECTIONS
from corollary.audit.sections import _certificates

N, SIZES = 90, (8, 16, 3)
ETA, BATCH = 0.5, 30


@pytest.fixture(scope="module", autouse=True)
def double():
    """In double precision, and with a certificate that is trained for a few steps: it is to be the same, not good."""
    with jax.enable_x64(True), pytest.MonkeyPatch.context() as patch:
        patch.setattr(_certificates, "STEPS", {"quick": 60})
        yield


def forward(params, x):
    (w, b), (v, c) = params
    return jnp.tanh(x @ w + b) @ v + c


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = np.arange(N) % SIZES[-1]
    x = rng.normal(size=(SIZES[-1], SIZES[0]))[y] + rng.normal(size=(N, SIZES[0]))
    return (x - x.mean(0)) / x.std(0), y


@pytest.fixture(scope="module")
def weights(data):
    """The layers where training starts, and where a hundred steps of gradient descent lead."""
    rng = np.random.default_rng(1)
    start = [(rng.normal(size=(m, n)) / np.sqrt(m), np.zeros(n)) for m, n in pairwise(SIZES)]
    x, y = data

    def loss(params):
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(forward(params, x)), y[:, None], 1))

    @jax.jit
    def trained(params):
        step = lambda p, _: (jax.tree.map(lambda a, g: a - ETA * g, p, jax.grad(loss)(p)), None)  # noqa: E731
        return jax.lax.scan(step, params, None, length=100)[0]

    return start, jax.tree.map(np.asarray, trained(start))


def function(layers, x):
    """A list of layers; the rooms' own tests are of such networks."""
    return Network(forward, layers)


def equinox(layers, x):
    module = eqx.nn.MLP(SIZES[0], SIZES[2], SIZES[1], 1, activation=jnp.tanh, key=jax.random.key(0))
    arrays = [jnp.asarray(a) for w, b in layers for a in (w.T, b)]
    return eqx.tree_at(lambda m: [a for layer in m.layers for a in (layer.weight, layer.bias)], module, arrays)


def linen_parts(layers):
    linen = pytest.importorskip("flax.linen")
    module = linen.Sequential(
        [linen.Dense(SIZES[1], param_dtype=float), jnp.tanh, linen.Dense(SIZES[2], param_dtype=float)]
    )
    # the last layer comes first in the order of names
    params = {f"layers_{2 * i}": {"kernel": w, "bias": b} for i, (w, b) in enumerate(layers)}
    return module, {"params": params}


def linen(layers, x):
    module, variables = linen_parts(layers)
    return Network.from_flax(module, x[0], variables=variables)


def nnx_module(layers):
    nnx = pytest.importorskip("flax.nnx")
    rngs = nnx.Rngs(0)
    module = nnx.Sequential(*[nnx.Linear(*w.shape, param_dtype=float, rngs=rngs) for w, _ in layers])
    module.layers.insert(1, jnp.tanh)
    for layer, (w, b) in zip((module.layers[0], module.layers[2]), layers, strict=True):
        layer.kernel[...], layer.bias[...] = w, b
    return module


def nnx(layers, x):
    return Network.from_flax(nnx_module(layers), x[0])


def keras_model(layers):
    keras = pytest.importorskip("keras", reason="keras is not installed: pip install 'corollary[keras]'")
    # Keras's own tanh rounds to float32
    first = keras.layers.Dense(SIZES[1], activation=jnp.tanh, dtype="float64", name="second")
    second = keras.layers.Dense(SIZES[2], dtype="float64", name="first")  # another order of names
    model = keras.Sequential([keras.Input((SIZES[0],), dtype="float64"), first, second])
    model.set_weights([a for layer in layers for a in layer])
    return model


def keras(layers, x):
    return Network.from_keras(keras_model(layers), x[0])


def torch_module(layers):
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'corollary[torch]'")
    nn = torch.nn
    module = nn.Sequential(nn.Linear(SIZES[0], SIZES[1]), nn.Tanh(), nn.Linear(SIZES[1], SIZES[2])).double()
    with torch.no_grad():
        for layer, (w, b) in zip((module[0], module[2]), layers, strict=True):
            layer.weight.copy_(torch.tensor(w.T))
            layer.bias.copy_(torch.tensor(b))
    return module


def torch(layers, x):
    return Network.from_torch(torch_module(layers), x[0])


def onnx_model(layers):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'corollary[onnx]'")
    stored = {
        name: a for names, layer in zip(("wb", "vc"), layers, strict=True) for name, a in zip(names, layer, strict=True)
    }
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Gemm", ["x", "w", "b"], ["a"]),
            onnx.helper.make_node("Tanh", ["a"], ["h"]),
            onnx.helper.make_node("Gemm", ["h", "v", "c"], ["out"]),
        ],
        "net",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.DOUBLE, ["n", SIZES[0]])],
        [onnx.helper.make_tensor_value_info("out", onnx.TensorProto.DOUBLE, ["n", SIZES[2]])],
        [onnx.numpy_helper.from_array(np.asarray(a), name) for name, a in stored.items()],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def onnx(layers, x):
    return Network.from_onnx(onnx_model(layers), x[0])


def estimator(layers):
    out = MLPClassifier((SIZES[1],), activation="tanh", alpha=0.0, max_iter=1, random_state=0)
    with pytest.warns(match="converge"):
        out.fit(np.zeros((SIZES[2], SIZES[0])), np.arange(SIZES[2]))
    out.coefs_, out.intercepts_ = map(list, zip(*layers, strict=True))
    return out


def sklearn(layers, x):
    return Network.from_sklearn(estimator(layers))


def skl2onnx(layers, x):
    """The graph that scikit-learn's converter writes, up to the logits: what follows are probabilities and labels."""
    converter = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    graph = (model := converter.to_onnx(estimator(layers), x[:1], options={"zipmap": False})).graph
    (last,) = [i for i, node in enumerate(graph.node) if node.op_type == "Softmax"]
    graph.output[1].name = graph.node[last].input[0]
    del graph.node[last:], graph.output[0]
    return Network.from_onnx(model, x[0])


def numbers(report):
    """Every number of the findings, by section and name: the value, the ends of the interval, what is printed of it."""
    found = {}
    for section in report.sections:
        assert section.failed is None, section.failed
        for f in section.findings:
            values = () if f.value is None else (f.value, *(f.interval or ()))
            found[section.title, f.name] = f.mark, np.asarray(values, float)
    return found


def audited(door, weights, data):
    start, end = weights
    initial = door(start, data[0])
    subject = Subject(
        door(end, data[0]), "cross_entropy", data, data, initial=initial, learning_rate=ETA, batch_size=BATCH
    )
    return numbers(audit(subject))


@pytest.fixture(scope="module")
def expected(weights, data):
    return audited(function, weights, data)


# Doors that keep parameters in each of the ways there are go through all sections, the others through the first three,
# in which random directions in the space of the parameters are drawn.
WHOLE, FIRST = [equinox, torch, onnx], 3


@pytest.mark.parametrize(
    "door", [equinox, linen, nnx, keras, torch, onnx, sklearn, skl2onnx], ids=lambda door: door.__name__
)
def test_one_audit_through_every_door(door, weights, data, expected, monkeypatch):
    if door not in WHOLE:
        monkeypatch.setattr(run, "SECTIONS", SECTIONS[:FIRST])
    found = audited(door, weights, data)
    titles = [import_module(f"corollary.audit.sections.{name}").TITLE for name in run.SECTIONS]
    assert list(found) == [name for name in expected if name[0] in titles]
    for name, (mark, values) in found.items():
        assert expected[name][0] == mark, name
        # numbers that are nothing but rounding are compared with one
        np.testing.assert_allclose(values, expected[name][1], rtol=1e-5, atol=1e-12, err_msg=str(name))


def test_the_lines_of_the_readme(weights, data, tmp_path, monkeypatch):
    """Each line of the table of doors, run as it is printed on what it is meant for."""
    monkeypatch.chdir(tmp_path)
    layers, x = weights[1], data[0]
    state = eqx.nn.State(equinox(layers, x))
    given = {
        "Equinox": dict(module=Stateful(equinox(layers, x)), state=state),
        "Flax Linen": dict(zip(("module", "variables"), linen_parts(layers), strict=True)),
        "Flax NNX": dict(module=nnx_module(layers)),
        "Keras 3 on JAX": dict(model=keras_model(layers)),
        "PyTorch": dict(module=torch_module(layers)),
        "ONNX": dict(model=(tmp_path / "model.onnx").write_bytes(onnx_model(layers).SerializeToString())),
        "scikit-learn": dict(estimator=estimator(layers)),
        "Haiku": dict(apply=lambda params, rng, x: forward(params, x), params=layers),
        "a function of one example": dict(apply=forward, params=layers),
    }
    text = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    table = text.split("| made with | a network here |")[1].split("\n\n")[0]
    lines = dict(re.findall(r"^\| ([^|`]+) \| .*?`(Network.*?\))`", table, re.MULTILINE))
    assert set(lines) == set(given)
    for name, line in lines.items():
        scope = {"Network": Network, "x": x, **given[name]}
        exec(f"network = {line}", scope)
        np.testing.assert_allclose(
            jax.vmap(scope["network"])(x), forward(layers, x), rtol=1e-10, atol=1e-10, err_msg=name
        )


class Stateful(eqx.Module):
    inner: eqx.Module

    def __call__(self, x, state):
        return self.inner(x), state
