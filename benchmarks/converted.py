"""Networks that were read from ONNX and PyTorch beside the same ones in Equinox: forward, and with the gradient.

    python benchmarks/converted.py

The interpreters run while a program is traced and leave nothing behind in it, so all should take the same time.
Their rounds alternate, and the best of each counts; ends with status 0 if no ratio is above 1.1.
"""

import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from _peer_converted import Transformer as TorchTransformer
from _peer_converted import resnet as torch_resnet
from onnx import TensorProto, helper, numpy_helper

from corollary import Network

BAR, ROUNDS = 1.1, 25
KEY = jax.random.key(0)


class Norm(eqx.Module):
    """Batch normalisation by stored statistics."""

    scale: jax.Array
    shift: jax.Array

    def __init__(self, width):
        self.scale, self.shift = jnp.ones(width), jnp.zeros(width)

    def __call__(self, x):
        mean, variance = jnp.zeros(self.scale.shape), jnp.ones(self.scale.shape)
        factor = jax.lax.rsqrt(variance + 1e-5) * self.scale
        return (x - mean[:, None, None]) * factor[:, None, None] + self.shift[:, None, None]


def convolution(wide_in, wide_out, size, stride, key):
    return eqx.nn.Conv2d(wide_in, wide_out, size, stride, size // 2, use_bias=False, key=key)


class Block(eqx.Module):
    first: eqx.nn.Conv2d
    second: eqx.nn.Conv2d
    norms: tuple[Norm, Norm]
    shortcut: tuple[eqx.nn.Conv2d, Norm] | None

    def __init__(self, wide_in, wide_out, stride, key):
        keys = jax.random.split(key, 3)
        self.first = convolution(wide_in, wide_out, 3, stride, keys[0])
        self.second = convolution(wide_out, wide_out, 3, 1, keys[1])
        self.norms = Norm(wide_out), Norm(wide_out)
        changed = stride > 1 or wide_in != wide_out
        self.shortcut = (convolution(wide_in, wide_out, 1, stride, keys[2]), Norm(wide_out)) if changed else None

    def __call__(self, x):
        y = jax.nn.relu(self.norms[0](self.first(x)))
        y = self.norms[1](self.second(y))
        around = x if self.shortcut is None else self.shortcut[1](self.shortcut[0](x))
        return jax.nn.relu(y + around)


class ResNet18(eqx.Module):
    stem: eqx.nn.Conv2d
    norm: Norm
    blocks: list[Block]
    head: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key, 10)
        self.stem, self.norm = convolution(3, 64, 7, 2, keys[0]), Norm(64)
        widths = (64, 64, 64, 128, 128, 256, 256, 512, 512)
        self.blocks = [
            Block(a, b, 1 if a == b else 2, key) for a, b, key in zip(widths, widths[1:], keys[1:], strict=False)
        ]
        self.head = eqx.nn.Linear(512, 1000, key=keys[9])

    def __call__(self, x):
        x = jax.nn.relu(self.norm(self.stem(x)))
        x = eqx.nn.MaxPool2d(3, 2, 1)(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((1, 2)))


class Transformer(eqx.Module):
    """One block of GPT-2: attention that looks back, then two layers, each around a normalisation."""

    norms: tuple[eqx.nn.LayerNorm, eqx.nn.LayerNorm]
    into: eqx.nn.Linear
    out: eqx.nn.Linear
    wide: eqx.nn.Linear
    narrow: eqx.nn.Linear
    heads: int = eqx.field(static=True)

    def __init__(self, width, heads, key):
        keys = jax.random.split(key, 4)
        self.norms = eqx.nn.LayerNorm(width), eqx.nn.LayerNorm(width)
        self.into, self.out = eqx.nn.Linear(width, 3 * width, key=keys[0]), eqx.nn.Linear(width, width, key=keys[1])
        self.wide = eqx.nn.Linear(width, 4 * width, key=keys[2])
        self.narrow = eqx.nn.Linear(4 * width, width, key=keys[3])
        self.heads = heads

    def __call__(self, x):
        length, width = x.shape
        query, key, value = jnp.split(jax.vmap(self.into)(jax.vmap(self.norms[0])(x)), 3, axis=-1)
        query, key, value = (a.reshape(length, self.heads, -1).swapaxes(0, 1) for a in (query, key, value))
        scores = query @ key.swapaxes(1, 2) / np.sqrt(width / self.heads).astype(np.float32)
        scores = jnp.where(np.tril(np.ones((length, length), bool)), scores, -1e9)
        mixed = (jax.nn.softmax(scores) @ value).swapaxes(0, 1).reshape(length, width)
        x = x + jax.vmap(self.out)(mixed)
        return x + jax.vmap(self.narrow)(jax.nn.gelu(jax.vmap(self.wide)(jax.vmap(self.norms[1])(x))))


class Graph:
    """An ONNX graph that grows node by node."""

    def __init__(self):
        self.nodes, self.tensors = [], []

    def __call__(self, op, *inputs, outputs=1, **attributes):
        names = [a if isinstance(a, str) else self.tensor(a) for a in inputs]
        made = [f"v{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, names, made, **attributes))
        return made[0] if outputs == 1 else made

    def tensor(self, a):
        self.tensors.append(numpy_helper.from_array(np.asarray(a), f"t{len(self.tensors)}"))
        return self.tensors[-1].name

    def model(self, shape, output):
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *shape])],
            [helper.make_empty_tensor_value_info(output)],
            self.tensors,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def resnet_graph(network):
    g = Graph()

    def conv(layer, x):
        pads = [layer.padding[0][0]] * 4
        return g("Conv", x, layer.weight, strides=list(layer.stride), pads=pads)

    def norm(layer, x):
        zeros = np.zeros(layer.scale.shape, np.float32)
        return g("BatchNormalization", x, layer.scale, layer.shift, zeros, zeros + 1)

    x = g("Relu", norm(network.norm, conv(network.stem, "x")))
    x = g("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for block in network.blocks:
        y = g("Relu", norm(block.norms[0], conv(block.first, x)))
        y = norm(block.norms[1], conv(block.second, y))
        around = x if block.shortcut is None else norm(block.shortcut[1], conv(block.shortcut[0], x))
        x = g("Relu", g("Add", y, around))
    x = g("Flatten", g("GlobalAveragePool", x))
    return g.model((3, 64, 64), g("Gemm", x, network.head.weight, network.head.bias, transB=1))


def transformer_graph(network, length, width):
    g, heads = Graph(), network.heads

    def affine(layer, x):
        return g("Add", g("MatMul", x, np.asarray(layer.weight).T), layer.bias)

    def norm(layer, x):
        return g("LayerNormalization", x, layer.weight, layer.bias, axis=-1)

    parts = g("Split", affine(network.into, norm(network.norms[0], "x")), outputs=3, axis=-1, num_outputs=3)
    shape = np.array([0, length, heads, width // heads])
    query, key, value = (g("Transpose", g("Reshape", a, shape), perm=[0, 2, 1, 3]) for a in parts)
    scores = g("MatMul", query, g("Transpose", key, perm=[0, 1, 3, 2]))
    scores = g("Div", scores, np.sqrt(width / heads).astype(np.float32))
    scores = g("Where", np.tril(np.ones((length, length), bool)), scores, np.float32(-1e9))
    mixed = g("Transpose", g("MatMul", g("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
    x = g("Add", "x", affine(network.out, g("Reshape", mixed, np.array([0, length, width]))))
    y = g("Gelu", affine(network.wide, norm(network.norms[1], x)), approximate="tanh")
    return g.model((length, width), g("Add", x, affine(network.narrow, y)))


def programs(network, x):
    """The outputs of a batch, and the gradient of the mean of their squares, of the same parameters and inputs."""
    params, fixed = eqx.partition(network, eqx.is_inexact_array)

    def outputs(params, x):
        return jax.vmap(eqx.combine(params, fixed))(x)

    forward = jax.jit(outputs)
    backward = jax.jit(jax.grad(lambda params, x: jnp.mean(outputs(params, x) ** 2)))
    return {"forward": lambda: forward(params, x), "backward": lambda: backward(params, x)}


def best(*functions):
    """The shortest time of each, their rounds in turn."""
    times = [[] for _ in functions]
    for _ in range(ROUNDS + 1):
        for taken, function in zip(times, functions, strict=True):
            began = time.perf_counter()
            jax.block_until_ready(function())
            taken.append(time.perf_counter() - began)
    return [min(taken[1:]) for taken in times]


def main():
    resnet, block = ResNet18(KEY), Transformer(256, 8, KEY)
    images, tokens = jax.random.normal(KEY, (4, 3, 64, 64)), jax.random.normal(KEY, (4, 128, 256))
    graph, module = transformer_graph(block, 128, 256), TorchTransformer(block).eval()
    cases = {
        "ResNet18, 4 images of 64 x 64": (resnet, resnet_graph(resnet), torch_resnet(resnet), images),
        "a block of GPT-2, 4 x 128 tokens, width 256": (block, graph, module, tokens),
    }
    worst = 0.0
    print("| network | | Equinox, ms | from ONNX, ms | ratio | from PyTorch, ms | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, (network, model, module, x) in cases.items():
        read = Network.from_onnx(model, np.asarray(x[0])), Network.from_torch(module, np.asarray(x[0]))
        for each in read:
            np.testing.assert_allclose(each(x[0]), network(x[0]), rtol=1e-3, atol=1e-4)
        compiled = [programs(each, x) for each in (network, *read)]
        for kind in compiled[0]:
            written, *times = best(*(each[kind] for each in compiled))
            worst = max(worst, *(taken / written for taken in times))
            columns = " | ".join(f"{1000 * taken:.1f} | {taken / written:.2f}" for taken in times)
            print(f"| {name} | {kind} | {1000 * written:.1f} | {columns} |", flush=True)
    return int(worst > BAR)


if __name__ == "__main__":
    sys.exit(main())
