"""The same CNN, GRU and transformer through Equinox, Flax, PyTorch and ONNX: the same outputs, findings and actions.

Each library has its own modules for them: it stacks gates and projections or keeps them apart, has other biases, other
axes first. Numbers that follow from outputs are the same; those of single arrays of parameters need not be.
"""

from functools import cache
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network, Subject
from corollary.audit import audit, run
from corollary.landscape import layer_signals

N, RATE, STEPS = 96, 0.5, 60
CLASSES, CHANNELS, SIDE = 3, 4, 6  # of the images
LENGTH, INPUTS, HIDDEN = 5, 3, 6  # of the sequences that the GRU reads
VOCABULARY, WIDTH, HEADS = 5, 8, 2  # of the transformer


@pytest.fixture(scope="module", autouse=True)
def double():
    with jax.enable_x64(True):
        yield


# --- the networks, as functions of plain arrays


def convolved(p, x):
    h = jax.lax.conv_general_dilated(x[None], p["kernel"], (1, 1), "VALID")[0] + p["shift"][:, None, None]
    return jax.nn.relu(h).reshape(-1) @ p["head"] + p["bias"]


def recurrent(p, x):
    def step(h, x):
        r, z, n = ((x @ p[f"i{g}"] + p[f"b{g}"]) for g in "rzn")
        r, z = jax.nn.sigmoid(r + h @ p["hr"]), jax.nn.sigmoid(z + h @ p["hz"])
        n = jnp.tanh(n + r * (h @ p["hn"] + p["c"]))
        return (1 - z) * n + z * h, None

    return jax.lax.scan(step, jnp.zeros(HIDDEN), x)[0] @ p["head"] + p["bias"]


def attended(p, tokens):
    x = jnp.asarray(p["table"])[tokens] + p["places"]
    q, k, v = ((x @ p[name]).reshape(LENGTH, HEADS, -1).transpose(1, 0, 2) for name in "qkv")
    seen = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    weights = jax.nn.softmax(jnp.where(seen, q @ k.transpose(0, 2, 1) / (WIDTH // HEADS) ** 0.5, -jnp.inf))
    x = x + (weights @ v).transpose(1, 0, 2).reshape(LENGTH, WIDTH) @ p["o"]
    return x @ p["head"] + p["bias"]


class Kind(NamedTuple):
    forward: object
    shapes: dict
    data: tuple


def images():
    rng = np.random.default_rng(0)
    y = np.arange(N) % CLASSES
    x = 0.7 * rng.normal(size=(CLASSES, 1, SIDE, SIDE))[y] + rng.normal(size=(N, 1, SIDE, SIDE))
    return x, y


def series():
    rng = np.random.default_rng(1)
    y = np.arange(N) % CLASSES
    return 0.7 * rng.normal(size=(CLASSES, LENGTH, INPUTS))[y] + rng.normal(size=(N, LENGTH, INPUTS)), y


def text():
    rng = np.random.default_rng(2)
    words = rng.integers(0, VOCABULARY, (N, LENGTH + 1))
    for t in range(2, LENGTH + 1):  # most tokens follow from the two before them
        words[:, t] = np.where(rng.random(N) < 0.8, (words[:, t - 1] + 2 * words[:, t - 2]) % VOCABULARY, words[:, t])
    return words[:, :-1], words[:, 1:]


FLAT = CHANNELS * (SIDE - 2) ** 2
KINDS = {
    "CNN": Kind(
        convolved,
        {"kernel": (CHANNELS, 1, 3, 3), "shift": (CHANNELS,), "head": (FLAT, CLASSES), "bias": (CLASSES,)},
        images(),
    ),
    "GRU": Kind(
        recurrent,
        {f"i{g}": (INPUTS, HIDDEN) for g in "rzn"}
        | {f"h{g}": (HIDDEN, HIDDEN) for g in "rzn"}
        | {f"b{g}": (HIDDEN,) for g in "rzn"}
        | {"c": (HIDDEN,), "head": (HIDDEN, CLASSES), "bias": (CLASSES,)},
        series(),
    ),
    "transformer": Kind(
        attended,
        {"table": (VOCABULARY, WIDTH), "places": (LENGTH, WIDTH), **dict.fromkeys("qkvo", (WIDTH, WIDTH))}
        | {"head": (WIDTH, VOCABULARY), "bias": (VOCABULARY,)},
        text(),
    ),
}


@cache
def weights(kind):
    """The arrays where training starts, and where some steps of gradient descent lead."""
    forward, shapes, (x, y) = KINDS[kind]
    rng = np.random.default_rng(3)
    fan = {"kernel": 9, "table": 1, "places": 1}
    start = {
        name: np.zeros(shape) if len(shape) == 1 else rng.normal(size=shape) / fan.get(name, shape[0]) ** 0.5
        for name, shape in shapes.items()
    }

    def loss(p):
        out = jax.nn.log_softmax(jax.vmap(lambda one: forward(p, one))(x))
        return -jnp.mean(jnp.take_along_axis(out, y[..., None], -1))

    @jax.jit
    def trained(p):
        step = lambda p, _: (jax.tree.map(lambda a, g: a - RATE * g, p, jax.grad(loss)(p)), None)  # noqa: E731
        return jax.lax.scan(step, p, None, length=STEPS)[0]

    return start, jax.tree.map(np.asarray, trained(start))


# --- the doors: each library's own modules, with these arrays in them


def put(module, pairs):
    """An Equinox module with other arrays: pairs of where and what."""
    where = lambda m: [get(m) for get, _ in pairs]  # noqa: E731
    return eqx.tree_at(where, module, [jnp.asarray(a) for _, a in pairs])


class ByEquinox(eqx.Module):
    """Any of the three: `first` is the part before the head."""

    first: eqx.Module
    head: eqx.nn.Linear
    beside: dict

    def __call__(self, x):
        if isinstance(self.first, eqx.nn.Conv2d):
            return self.head(jax.nn.relu(self.first(x)).reshape(-1))
        if isinstance(self.first, eqx.nn.GRUCell):
            return self.head(jax.lax.scan(lambda h, x: (self.first(x, h), None), jnp.zeros(HIDDEN), x)[0])
        x = jax.vmap(self.beside["table"])(x) + self.beside["places"]
        seen = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
        return jax.vmap(self.head)(x + self.first(x, x, x, mask=seen))


def equinox(kind, p, x):
    key, nn, beside = jax.random.key(0), eqx.nn, {}
    if kind == "CNN":
        first = put(
            nn.Conv2d(1, CHANNELS, 3, key=key),
            [(lambda m: m.weight, p["kernel"]), (lambda m: m.bias, p["shift"][:, None, None])],
        )
    elif kind == "GRU":
        stacked = [np.concatenate([p[f"{side}{g}"] for g in "rzn"], -1) for side in "ihb"]
        wanted = lambda m: m.weight_ih, lambda m: m.weight_hh, lambda m: m.bias, lambda m: m.bias_n
        arrays = stacked[0].T, stacked[1].T, stacked[2], p["c"]
        first = put(nn.GRUCell(INPUTS, HIDDEN, key=key), list(zip(wanted, arrays, strict=True)))
    else:
        parts = [lambda m, n=n: getattr(m, n).weight for n in ("query_proj", "key_proj", "value_proj", "output_proj")]
        first = put(
            nn.MultiheadAttention(HEADS, WIDTH, key=key),
            [(part, p[name].T) for part, name in zip(parts, "qkvo", strict=True)],
        )
        beside = {"table": put(nn.Embedding(VOCABULARY, WIDTH, key=key), [(lambda m: m.weight, p["table"])])}
        beside["places"] = jnp.asarray(p["places"])
    head = nn.Linear(*p["head"].shape, key=key)
    return ByEquinox(first, put(head, [(lambda m: m.weight, p["head"].T), (lambda m: m.bias, p["bias"])]), beside)


def flax(kind, p, x):
    linen = pytest.importorskip("flax.linen")

    class ByFlax(linen.Module):
        @linen.compact
        def __call__(self, x):
            double = {"param_dtype": float}
            head = linen.Dense(p["head"].shape[1], name="head", **double)
            if kind == "CNN":
                h = linen.Conv(CHANNELS, (3, 3), padding="VALID", name="first", **double)(jnp.moveaxis(x, 1, -1))
                return head(jnp.moveaxis(linen.relu(h), -1, 1).reshape(len(x), -1))
            if kind == "GRU":
                return head(linen.RNN(linen.GRUCell(HIDDEN, name="first", **double))(x)[:, -1])
            x = linen.Embed(VOCABULARY, WIDTH, name="table", **double)(x)
            x = x + self.param("places", linen.initializers.zeros, (LENGTH, WIDTH), float)
            attention = linen.MultiHeadDotProductAttention(HEADS, use_bias=False, name="first", **double)
            return head(x + attention(x, mask=jnp.tril(jnp.ones((1, LENGTH, LENGTH), bool))))

    params = {"head": {"kernel": p["head"], "bias": p["bias"]}}
    if kind == "CNN":
        params["first"] = {"kernel": np.transpose(p["kernel"], (2, 3, 1, 0)), "bias": p["shift"]}
    elif kind == "GRU":
        params["first"] = {f"i{g}": {"kernel": p[f"i{g}"], "bias": p[f"b{g}"]} for g in "rzn"}
        params["first"] |= {f"h{g}": {"kernel": p[f"h{g}"]} for g in "rzn"}
        params["first"]["hn"]["bias"] = p["c"]
    else:
        split = lambda a: a.reshape(WIDTH, HEADS, WIDTH // HEADS)  # noqa: E731
        params["first"] = {
            name: {"kernel": split(p[short])} for name, short in (("query", "q"), ("key", "k"), ("value", "v"))
        }
        params["first"]["out"] = {"kernel": p["o"].reshape(HEADS, WIDTH // HEADS, WIDTH)}
        params |= {"table": {"embedding": p["table"]}, "places": p["places"]}
    return Network.from_flax(ByFlax(), x[0], variables={"params": params})


def torch(kind, p, x):
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'corollary[torch]'")
    nn = torch.nn

    class ByTorch(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(*p["head"].shape)
            if kind == "CNN":
                self.first = nn.Conv2d(1, CHANNELS, 3)
            elif kind == "GRU":
                self.first = nn.GRU(INPUTS, HIDDEN, batch_first=True)
            else:
                self.first = nn.MultiheadAttention(WIDTH, HEADS, bias=False, batch_first=True)
                self.table = nn.Embedding(VOCABULARY, WIDTH)
                self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))

        def forward(self, x):
            if kind == "CNN":
                return self.head(torch.relu(self.first(x)).flatten(1))
            if kind == "GRU":
                return self.head(self.first(x)[0][:, -1])
            x = self.table(x) + self.places
            hidden = torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool), 1)
            return self.head(x + self.first(x, x, x, attn_mask=hidden, need_weights=False)[0])

    state = {"head.weight": p["head"].T, "head.bias": p["bias"]}
    if kind == "CNN":
        state |= {"first.weight": p["kernel"], "first.bias": p["shift"]}
    elif kind == "GRU":
        stacked = [np.concatenate([p[f"{side}{g}"] for g in "rzn"], -1) for side in "ihb"]
        state |= {
            "first.weight_ih_l0": stacked[0].T,
            "first.weight_hh_l0": stacked[1].T,
            "first.bias_ih_l0": stacked[2],
        }
        state["first.bias_hh_l0"] = np.concatenate([np.zeros(2 * HIDDEN), p["c"]])
    else:
        state |= {"table.weight": p["table"], "places": p["places"], "first.out_proj.weight": p["o"].T}
        state["first.in_proj_weight"] = np.concatenate([p[name].T for name in "qkv"])
    module = ByTorch().double()
    module.load_state_dict({name: torch.tensor(np.ascontiguousarray(a)) for name, a in state.items()})
    return Network.from_torch(module, x[0])


def onnx(kind, p, x):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'corollary[onnx]'")
    node, nodes = onnx.helper.make_node, []
    stored, constants = {"head": p["head"], "bias": p["bias"]}, {}

    def add(name, inputs, out, **attributes):
        nodes.append(node(name, inputs, [out], **attributes))
        return out

    if kind == "CNN":
        stored |= {"kernel": p["kernel"], "shift": p["shift"]}
        add("Relu", [add("Conv", ["x", "kernel", "shift"], "h")], "a")
        add("Gemm", [add("Flatten", ["a"], "flat"), "head", "bias"], "out")
    elif kind == "GRU":
        stored |= {n: np.concatenate([p[f"{s}{g}"].T for g in "zrn"])[None] for n, s in (("W", "i"), ("R", "h"))}
        inner = [p[f"b{g}"] for g in "zrn"]
        stored["B"] = np.concatenate([*inner, np.zeros(2 * HIDDEN), p["c"]])[None]
        add("Transpose", ["x"], "xs", perm=[1, 0, 2])
        nodes.append(node("GRU", ["xs", "W", "R", "B"], ["", "last"], hidden_size=HIDDEN, linear_before_reset=1))
        constants["first"] = np.array([0])
        add("Gemm", [add("Squeeze", ["last", "first"], "h"), "head", "bias"], "out")
    else:
        stored |= {name: p[name] for name in ("table", "places", *"qkvo")}
        constants |= {"apart": np.array([0, LENGTH, HEADS, WIDTH // HEADS]), "together": np.array([0, LENGTH, WIDTH])}
        constants["mask"] = np.where(np.tril(np.ones((LENGTH, LENGTH))), 0.0, -np.inf)
        constants["scale"] = np.array((WIDTH // HEADS) ** -0.5)
        add("Add", [add("Gather", ["table", "x"], "words"), "places"], "e")
        for name in "qkv":
            add("Reshape", [add("MatMul", ["e", name], f"{name}0"), "apart"], f"{name}1")
            add("Transpose", [f"{name}1"], f"{name}2", perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3])
        add("Add", [add("Mul", [add("MatMul", ["q2", "k2"], "s0"), "scale"], "s1"), "mask"], "s2")
        add("Transpose", [add("MatMul", [add("Softmax", ["s2"], "w", axis=-1), "v2"], "m0")], "m1", perm=[0, 2, 1, 3])
        add("Add", ["e", add("MatMul", [add("Reshape", ["m1", "together"], "m2"), "o"], "m3")], "r")
        add("Add", [add("MatMul", ["r", "head"], "l"), "bias"], "out")
    whole = x.dtype.kind == "i"
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "net",
        [value("x", onnx.TensorProto.INT64 if whole else onnx.TensorProto.DOUBLE, ["n", *x.shape[1:]])],
        [value("out", onnx.TensorProto.DOUBLE, None)],
        [onnx.numpy_helper.from_array(np.ascontiguousarray(a), name) for name, a in (stored | constants).items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    return Network.from_onnx(model, x[0], parameters=list(stored))


DOORS = {"Equinox": equinox, "Flax": flax, "PyTorch": torch, "ONNX": onnx}


def function(kind, p, x):
    return Network(KINDS[kind].forward, p)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", KINDS)
def test_one_function_through_every_door(kind, door):
    p, x = weights(kind)[1], KINDS[kind].data[0]
    expected = jax.vmap(function(kind, p, x))(x)
    np.testing.assert_allclose(jax.vmap(DOORS[door](kind, p, x))(x), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", KINDS)
def test_one_set_of_layers_through_every_door(kind, door):
    """However a library keeps gates and projections, and takes a sequence."""
    p, data = weights(kind)[0], KINDS[kind].data

    def layers(door):
        return layer_signals(door(kind, p, data[0]), "cross_entropy", data)

    found, expected = layers(DOORS[door]), layers(function)
    assert [(a.units, a.dead is None) for a in found] == [(a.units, a.dead is None) for a in expected]
    for name in ("forward", "backward", "rank", "common", "gradient"):
        np.testing.assert_allclose(
            [getattr(a, name) for a in found], [getattr(a, name) for a in expected], rtol=1e-9, atol=1e-12, err_msg=name
        )


# Ways of keeping parameters: of each door of these all first steps are asked, of the others what is quick to compile.
SECTIONS = {"Flax": ("trainability", "noise"), "PyTorch": ("trainability", "noise")}


@cache
def asked(kind, door, sections):
    """Findings and actions: layers and first steps, the noise of the gradients, and how a text is read."""
    x, y = KINDS[kind].data
    start, end = ((function if door is None else DOORS[door])(kind, p, x) for p in weights(kind))
    known = dict(initial=start, learning_rate=RATE, batch_size=32, steps=STEPS)
    report = audit(Subject(end, "cross_entropy", (x[:64], y[:64]), (x[64:], y[64:]), **known))
    assert [section.failed for section in report.sections] == [None] * len(report.sections)
    return report


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", KINDS)
def test_one_set_of_findings_and_actions_through_every_door(kind, door, monkeypatch):
    sections = SECTIONS.get(door, ("noise",)) if kind != "CNN" else ("noise",)
    monkeypatch.setattr(run, "SECTIONS", sections)
    found, expected = asked(kind, door, sections), asked(kind, None, sections)
    titles = [section.title for section in found.sections]
    assert titles == [section.title for section in expected.sections]
    assert ("Does it read its text?" in titles) == (kind == "transformer")
    assert [(f.name, f.mark) for f in found.findings] == [(f.name, f.mark) for f in expected.findings]
    assert [(a.what, a.treats) for a in found.actions] == [(a.what, a.treats) for a in expected.actions]
    # a GRU of PyTorch or ONNX has biases twice
    tolerance = 0.05 if kind == "GRU" and door in ("PyTorch", "ONNX") else 1e-5
    for one, other in zip(found.findings, expected.findings, strict=True):
        if one.value is not None:
            assert one.value == pytest.approx(other.value, rel=tolerance, abs=1e-9), one.name
