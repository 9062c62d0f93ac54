"""Forward and backward of every family of networks on a CPU, ours and PyTorch's in turns.

    pip install -e '.[bench]' && python benchmarks/architectures.py

The loss of a batch and its gradient by all parameters in single precision, one compiled call. Both sides have the same
weights and data, and must find the same loss and gradients before their times count. PyTorch runs eager and compiled,
in all the ways to write a family that `_peer_architectures.py` knows; the fastest counts. Ratios above 1 say that ours
is faster; beside that of the times stands that of the CPU times of all threads, which other programs disturb
less. Best of several rounds, in which the sides take turns.

Memory: glibc gives blocks above 32 MB back to the system after every call and gets them anew, page by page, at the next
one; XLA, which takes what a call needs as one block, then spends up to a third of the time there. Both sides therefore
run with glibc told to keep its memory, and to ask for large pages.
"""

import argparse
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from _beside_pytorch import python

from corollary.data import stochastic_block_model
from corollary.nets import MLP, cpu_ready
from corollary.nets.activations import identity, relu
from corollary.nets.attention import Encoder, LanguageModel, ViT, next_token_loss, token_cross_entropy
from corollary.nets.convolutional import ResNet9, lenet5
from corollary.nets.graphs import GCN, Edges, GATLayer
from corollary.nets.layers import FullyConnected
from corollary.nets.recurrent import GRU, LSTM, Elman, LRULayer, MinGRU, Recurrent
from corollary.nets.sets import DeepSets, PointNetClassifier

KEY = jax.random.key(0)
MEMORY = "hugetlb=1", "arena_max=1", f"mmap_threshold={2**30}", f"trim_threshold={2**32}", f"top_pad={2**28}"
TUNABLES = ":".join(f"glibc.malloc.{setting}" for setting in MEMORY)


class Case(NamedTuple):
    """A model, `loss(model, *data)`, and what the peer has to know: `weights(model)` by PyTorch's names, sizes, data.

    `weights` is linear in the parameters, and so takes gradients to gradients. `peer_data` where it is not our data.
    """

    model: eqx.Module
    loss: object
    data: tuple
    weights: object
    sizes: dict
    text: str
    peer_data: tuple | None = None


def cross_entropy(logits, y):
    return token_cross_entropy(logits, y).mean()


def squared(out, y):
    return jnp.sum((out - y) ** 2, axis=-1).mean()


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def classes(count, *shape):
    return np.random.default_rng(1).integers(count, size=shape).astype(np.int32)


def affine(name, layer):
    found = {f"{name}.weight": layer.weight}
    return found if layer.bias is None else found | {f"{name}.bias": layer.bias}


def layers(name, mlp):
    return {k: a for i, layer in enumerate(mlp.layers) for k, a in affine(f"{name}.{2 * i}", layer).items()}


def lenet():
    def weights(m):
        first, second = ({"weight": c.weight, "bias": c.bias.ravel()} for c in m.convolutions)
        found = {f"first.{k}": a for k, a in first.items()} | {f"second.{k}": a for k, a in second.items()}
        return found | layers("dense", m.dense)

    data = normal(64, 1, 28, 28), classes(10, 64)
    loss = lambda m, x, y: cross_entropy(m.batch(x), y)  # noqa: E731
    return Case(lenet5(key=KEY), loss, data, weights, {}, "batch 64, 28 x 28")


def resnet():
    def weights(m):
        blocks = m.conv1, m.conv2, *m.res1, m.conv3, m.conv4, *m.res2
        found = affine("head", m.head)
        for i, b in enumerate(blocks):
            found |= {f"convs.{i}.weight": b.kernel.transpose(3, 2, 0, 1)}
            found |= {f"norms.{i}.weight": b.norm.scale, f"norms.{i}.bias": b.norm.shift}
        return found

    data = normal(16, 3, 32, 32), classes(10, 16)
    loss = lambda m, x, y: cross_entropy(m.batch(x, m.state(), training=True)[0], y)  # noqa: E731
    return Case(ResNet9(3, 10, key=KEY), loss, data, weights, {}, "batch 16, 32 x 32")


SEQUENCES = dict(batch=32, length=100, inputs=64, units=128, outputs=10)


def sequences(model, weights):
    c = SEQUENCES
    x, y = normal(c["batch"], c["length"], c["inputs"]), normal(c["batch"], c["length"], c["outputs"], seed=1)
    loss = lambda m, x, y: squared(jax.vmap(m)(x), y)  # noqa: E731
    text = f"batch {c['batch']}, length {c['length']}, {c['inputs']} inputs, {c['units']} units"
    return Case(model, loss, (x, y), weights, c, text, (x.swapaxes(0, 1), y.swapaxes(0, 1)))


def recurrence(cell, matrix):
    """PyTorch has two biases where one is enough; its second is zero."""
    return {"cell.weight_ih_l0": cell.inputs, "cell.weight_hh_l0": matrix, "cell.bias_ih_l0": cell.bias}


def elman():
    def weights(m):
        cell = {
            "cell.weight_ih_l0": m.cell.inputs,
            "cell.weight_hh_l0": m.cell.recurrent,
            "cell.bias_ih_l0": m.cell.bias,
        }
        return cell | affine("readout", m.readout)

    return sequences(Elman(*(SEQUENCES[k] for k in ("inputs", "units", "outputs")), key=KEY), weights)


def readout():
    return FullyConnected(SEQUENCES["units"], SEQUENCES["outputs"], key=KEY)


def lstm():
    def weights(m):
        cell = {
            "cell.weight_ih_l0": m.cell.inputs,
            "cell.weight_hh_l0": m.cell.recurrent,
            "cell.bias_ih_l0": m.cell.bias,
        }
        return cell | affine("readout", m.readout)

    return sequences(Recurrent(LSTM(SEQUENCES["inputs"], SEQUENCES["units"], key=KEY), readout()), weights)


def gru():
    def weights(m):
        both = jnp.concatenate([m.cell.gate_recurrent, m.cell.recurrent])
        return recurrence(m.cell, both) | affine("readout", m.readout)

    cell = GRU(SEQUENCES["inputs"], SEQUENCES["units"], reset="after", key=KEY)
    return sequences(Recurrent(cell, readout()), weights)


def mingru():
    def weights(m):
        return {"gate.weight": m.cell.gate, "value.weight": m.cell.value} | affine("readout", m.readout)

    # step by step: the parallel scan has more work, and two cores are not enough to make up for it
    return sequences(Recurrent(MinGRU(SEQUENCES["inputs"], SEQUENCES["units"], key=KEY), readout()), weights)


def lru():
    def weights(m):
        cell = {name: getattr(m.cell, name) for name in ("nu", "phi", "inputs")}
        return cell | {"weight": m.weight, "skip.weight": m.skip}

    return sequences(LRULayer(*(SEQUENCES[k] for k in ("inputs", "units", "outputs")), key=KEY), weights)


def blocks(stack):
    """The blocks of a transformer, which lie along a leading axis of ours, one by one."""
    at, net, (first, second) = stack.attention, stack.feed_forward.layers, stack.around
    parts = {"out": at.output, "up": net[0], "down": net[1], "norm1": first.norm, "norm2": second.norm}
    found = {f"{part}.{name}": getattr(layer, name) for part, layer in parts.items() for name in ("weight", "bias")}
    for name in ("weight", "bias"):
        three = [getattr(layer, name) for layer in (at.query, at.key, at.value)]
        found[f"qkv.{name}"] = None if three[0] is None else jnp.concatenate(three, axis=1)
    depth = at.output.weight.shape[0]
    return {f"blocks.{i}.{k}": a[i] for i in range(depth) for k, a in found.items() if a is not None}


def encoder():
    c = dict(batch=16, length=128, width=128, heads=4, depth=4)
    shape = c["batch"], c["length"], c["width"]
    model = Encoder(c["width"], c["heads"], c["depth"], key=KEY)
    loss = lambda m, x, y: squared(jax.vmap(m)(x), y)  # noqa: E731
    text = "batch 16, length 128, width 128, 4 heads, 4 blocks"
    return Case(model, loss, (normal(*shape), normal(*shape, seed=1)), lambda m: blocks(m.stack.blocks), c, text)


def language_model():
    c = dict(vocabulary=65, length=64, width=128, heads=4, depth=4)
    model = LanguageModel(*c.values(), key=KEY)

    def weights(m):
        found = {"token.weight": m.embedding.weight, "place.weight": m.embedding.places.table}
        return found | blocks(m.encoder.stack.blocks) | affine("norm", m.encoder.norm)

    loss = lambda m, tokens: next_token_loss(m, tokens, start=False)  # noqa: E731
    text = "batch 16, length 64, width 128, 4 heads, 4 blocks"
    return Case(model, loss, (classes(65, 16, 65),), weights, c, text)


def vit():
    c = dict(patch=4, width=64, heads=4, depth=4, classes=10)
    model = ViT((1, 28, 28), 4, 10, 64, 4, 4, key=KEY)

    def weights(m):
        found = affine("embedding", m.embedding) | {"cls": m.cls[None], "place": m.places.table}
        found |= affine("norm", m.encoder.norm) | affine("readout", m.readout)
        return found | blocks(m.encoder.stack.blocks)

    loss = lambda m, x, y: cross_entropy(jax.vmap(m)(x), y)  # noqa: E731
    text = "batch 32, 28 x 28 by patches of 4, width 64, 4 heads, 4 blocks"
    return Case(model, loss, (normal(32, 1, 28, 28), classes(10, 32)), weights, c, text)


def deep_sets():
    c = dict(phi=(3, 64, 64, 128), rho=(128, 64, 10))
    keys = jax.random.split(KEY)
    model = DeepSets(MLP(c["phi"], relu, key=keys[0]), MLP(c["rho"], relu, key=keys[1]))
    loss = lambda m, x, y: cross_entropy(jax.vmap(m)(x), y)  # noqa: E731
    weights = lambda m: layers("phi", m.phi) | layers("rho", m.rho)  # noqa: E731
    data = normal(32, 256, 3), classes(10, 32)
    return Case(model, loss, data, weights, c, "32 clouds of 256 points, 64, 64, 128 and 64, 10 units")


def pointnet():
    c = dict(classes=10, local=64, features=1024)

    def weights(m):
        f, found = m.features, layers("head", m.head) | layers("first", m.features.first)
        for name, net in (("input_net", f.input_net), ("feature_net", f.feature_net)):
            found |= layers(f"{name}.each", net.each) | layers(f"{name}.pooled", net.pooled)
        return found | layers("second", f.second)

    model = PointNetClassifier(10, key=KEY)
    loss = lambda m, x, y: cross_entropy(jax.vmap(m.logits)(x), y)  # noqa: E731
    return Case(model, loss, (normal(8, 256, 3), classes(10, 8)), weights, c, "8 clouds of 256 points, 1024 features")


NODES = 500


def graph():
    adjacency = np.asarray(stochastic_block_model(np.arange(NODES) % 4, 0.07 * np.eye(4) + 0.005, key=KEY)[0])
    edges = Edges.of(adjacency)
    x, y = normal(NODES, 32), classes(4, NODES)
    text = f"{NODES} vertices, {len(edges.senders) // 2} edges, sizes 32, 64, 4"
    peer = adjacency.astype(np.float32), np.asarray(edges.senders), np.asarray(edges.receivers), x, y
    return edges, jnp.asarray(adjacency, jnp.float32), x, y, text, peer


def gcn():
    _, adjacency, x, y, text, peer = graph()
    weights = lambda m: {f"layers.{i}.weight": layer.weight.T for i, layer in enumerate(m.layers)}  # noqa: E731
    loss = lambda m, graph, x, y: cross_entropy(m(x, graph), y)  # noqa: E731
    data = adjacency, x, y
    return Case(GCN((32, 64, 4), key=KEY), loss, data, weights, dict(sizes=(32, 64, 4)), text, peer)


class TwoLayers(eqx.Module):
    layers: tuple

    def __init__(self):
        keys = jax.random.split(KEY)
        self.layers = GATLayer(32, 64, heads=4, key=keys[0]), GATLayer(64, 4, identity, key=keys[1])

    def __call__(self, x, graph):
        return self.layers[1](self.layers[0](x, graph), graph)


def gat():
    edges, _, x, y, text, peer = graph()

    def weights(m):
        found = {}
        for i, layer in enumerate(m.layers):
            found |= {f"layers.{i}.weight": layer.projection.reshape(-1, layer.projection.shape[2])}
            found |= {f"own.{i}": layer.own, f"other.{i}": layer.other}
        return found

    sizes = dict(sizes=(32, 64, 4), heads=(4, 1))
    loss = lambda m, graph, x, y: cross_entropy(m(x, graph), y)  # noqa: E731
    return Case(TwoLayers(), loss, (edges, x, y), weights, sizes, text + ", 4 heads and 1", peer)


FAMILIES = {
    "LeNet": lenet,
    "ResNet9": resnet,
    "Elman": elman,
    "LSTM": lstm,
    "GRU": gru,
    "minGRU": mingru,
    "LRU": lru,
    "encoder": encoder,
    "language model": language_model,
    "ViT": vit,
    "Deep Sets": deep_sets,
    "PointNet": pointnet,
    "GCN": gcn,
    "GAT": gat,
}


class Peer:
    """A process with PyTorch, started anew after it took too long."""

    def __init__(self, mode, threads, limit):
        self.mode, self.threads, self.limit, self.process = mode, threads, limit, None

    def ask(self, **order):
        """Its answer, or None after the limit of seconds."""
        if self.process is None:
            script = Path(__file__).parent / "_peer_architectures.py"
            self.process = subprocess.Popen(
                [python(), script, str(self.threads), self.mode],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "1"},  # none is left behind after `stop`
            )
        print(json.dumps(order), file=self.process.stdin, flush=True)
        if not select.select([self.process.stdout], [], [], self.limit)[0]:
            return self.stop()
        line = self.process.stdout.readline()
        return json.loads(line) if line else self.stop()

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = None


def measure(call):
    began, cpu = time.perf_counter(), time.process_time()
    jax.block_until_ready(call())
    return time.perf_counter() - began, time.process_time() - cpu


def disagreement(ours, theirs):
    """Relative differences, of the loss and of the gradient as one vector.

    Single precision, and sums in another order: both are about 1e-6. Where a ReLU is within that of its kink the two
    sides may take different derivatives: of ResNet9, with two million of them, up to a hundredth of the gradient (in
    double precision 4e-15).
    """
    loss, gradients = ours
    if missing := gradients.keys() - set(theirs):
        raise SystemExit(f"PyTorch has no {sorted(missing)}.")
    apart = sum(np.sum((g - theirs[name]) ** 2) for name, g in gradients.items())
    size = sum(np.sum(g**2) for g in gradients.values())
    return abs(loss / float(theirs["loss"]) - 1), (apart / size) ** 0.5


def compare(family, peers, rounds, seconds):
    case = FAMILIES[family]()
    arrays, rest = eqx.partition(case.model, eqx.is_inexact_array)
    data = jax.tree.map(jnp.asarray, case.data)
    slopes = jax.value_and_grad(lambda a, *data: case.loss(eqx.combine(a, rest), *data))
    both = jax.jit(cpu_ready(slopes))
    first = measure(lambda: both(arrays, *data))[0]
    loss, gradients = both(arrays, *data)
    ours = float(loss), {k: np.asarray(a) for k, a in case.weights(gradients).items()}
    ways, apart, theirs_first = {}, (0.0, 0.0), {}
    with tempfile.TemporaryDirectory() as folder:
        given = {f"weight:{k}": np.asarray(a) for k, a in case.weights(arrays).items()}
        peer_data = case.data if case.peer_data is None else case.peer_data
        given |= {f"data{i}": np.asarray(a) for i, a in enumerate(peer_data)}
        about = dict(family=family, sizes=case.sizes, data=len(peer_data))
        np.savez(f"{folder}/in.npz", about=json.dumps(about), **given)
        for mode, peer in peers.items():
            if (answer := peer.ask(load=folder)) is not None:
                ways[mode], theirs_first[mode] = [], answer["first"]
                apart = np.maximum(apart, disagreement(ours, np.load(f"{folder}/out.npz")))
    mine, one = [], measure(lambda: both(arrays, *data))[0]
    calls = max(1, round(seconds / one))
    for _ in range(rounds):
        mine += [measure(lambda: both(arrays, *data)) for _ in range(calls)]
        for mode in list(ways):
            if (answer := peers[mode].ask(calls=calls)) is None:
                del ways[mode]
            else:
                ways[mode].append(answer)
    wall, cpu = np.min(mine, axis=0)
    # the best way to write it, of all rounds and calls
    best = {mode: np.array(found).transpose(1, 0, 2, 3).min(axis=(0, 1, 2)) for mode, found in ways.items()}
    theirs = np.min(list(best.values()), axis=0)
    return dict(
        text=case.text, ours=wall, best={m: b[0] for m, b in best.items()}, ratio=theirs[0] / wall,
        cpu=theirs[1] / cpu, first=first, theirs_first=theirs_first, apart=apart,
    )  # fmt: skip


def main(families, rounds, seconds, threads, limit, bar, compiled):
    modes = ("eager", "compiled") if compiled else ("eager",)
    peers = {mode: Peer(mode, threads, limit) for mode in modes}
    heads = (
        "ours ms",
        *(f"{m} ms" for m in modes),
        "ratio",
        "CPU",
        "first s",
        *(f"{m} s" for m in modes),
        "loss",
        "gradient",
    )
    print(f"{'':16}" + "".join(f"{h:>12}" for h in heads))
    slower, wrong = [], []
    for family in families or FAMILIES:
        r = compare(family, peers, rounds, seconds)
        jax.clear_caches()  # what one family leaves in memory must not slow the next one
        row = f"{1e3 * r['ours']:12.2f}" + "".join(f"{1e3 * r['best'].get(m, np.nan):12.2f}" for m in modes)
        row += f"{r['ratio']:12.2f}{r['cpu']:12.2f}{r['first']:12.1f}"
        row += "".join(f"{r['theirs_first'].get(m, np.nan):12.1f}" for m in modes)
        row += "".join(f"{apart:12.1e}" for apart in r["apart"])
        print(f"{family:16}{row}  {r['text']}", flush=True)
        slower += [family] if r["ratio"] < bar else []
        wrong += [family] if r["apart"][0] > 1e-5 or r["apart"][1] > (1e-2 if family == "ResNet9" else 1e-4) else []
    for peer in peers.values():
        peer.stop()
    if wrong:
        raise SystemExit(f"The two sides do not compute the same: {', '.join(wrong)}.")
    raise SystemExit(f"Below {bar:g} of PyTorch's speed: {', '.join(slower)}." if slower else 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*", help=f"of {', '.join(FAMILIES)}; all unless named")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each side in a round, about")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of PyTorch")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that PyTorch may take to compile a family")
    parser.add_argument("--bar", type=float, default=1.0, help="the least ratio that counts as a success")
    parser.add_argument("--eager", dest="compiled", action="store_false", help="leave torch.compile out")
    given = parser.parse_args()
    if unknown := set(given.families) - set(FAMILIES):
        parser.error(f"no family {', '.join(sorted(unknown))}")
    if os.environ.get("GLIBC_TUNABLES") != TUNABLES:  # read when a process starts
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"GLIBC_TUNABLES": TUNABLES})
    main(**vars(given))
