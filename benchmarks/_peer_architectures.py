"""The networks of `benchmarks/architectures.py` in PyTorch, written for speed on a CPU.

A server: reads a line of JSON, answers with one. `{"load": folder}` builds the family that `folder/in.npz` tells of,
with our weights and data, leaves its loss and gradients in `folder/out.npz` and answers how long the first calls took;
`{"calls": n}` answers with the seconds and the CPU seconds of n calls of each way to write it. A call is the loss
and the gradient by all parameters.
"""

import itertools
import json
import sys
import time

import numpy as np
import torch
from _peer_resnet import ResNet9 as Residual
from _peer_transformer import Model as Causal
from torch import nn
from torch.nn import functional as F


def mlp(*sizes):
    layers = []
    for n, m in itertools.pairwise(sizes):
        layers += [nn.Linear(n, m), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def squared(out, y):
    return ((out - y) ** 2).sum(-1).mean()


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.dense = mlp(400, 120, 84, 10)

    def forward(self, x, y):
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        return F.cross_entropy(self.dense(x.flatten(1)), y)


class ResNet9(Residual):
    def forward(self, x, y):
        return F.cross_entropy(super().forward(x), y)


class Recurrent(nn.Module):
    """`kind` is PyTorch's RNN, LSTM or GRU, each one fused routine for the whole sequence; here the time comes first,
    the order of axes that it is fastest in."""

    def __init__(self, kind, inputs, units, outputs):
        super().__init__()
        self.cell = getattr(nn, kind)(inputs, units)
        self.readout = nn.Linear(units, outputs)

    def forward(self, x, y):
        return squared(self.readout(self.cell(x)[0]), y)


def loop(a, b):
    """z_t = a_t z_{t-1} + b_t, one step after the other; time is the first axis, as the steps are then contiguous."""
    z, states = torch.zeros_like(b[0]), []
    for kept, new in zip(a.unbind(0), b.unbind(0), strict=True):
        z = torch.addcmul(new, kept, z)
        states.append(z)
    return torch.stack(states)


def doubling(a, b):
    """The same in parallel: after each round every place holds the product of twice as many steps."""
    shift = 1
    while shift < len(b):
        b = torch.cat([b[:shift], torch.addcmul(b[shift:], a[shift:], b[:-shift])])
        a = torch.cat([a[:shift], a[shift:] * a[:-shift]])
        shift *= 2
    return b


class MinGRU(nn.Module):
    def __init__(self, scan, inputs, units, outputs):
        super().__init__()
        self.gate, self.value = nn.Linear(inputs, units, bias=False), nn.Linear(inputs, units, bias=False)
        self.readout, self.scan = nn.Linear(units, outputs), scan

    def forward(self, x, y):
        gate = self.gate(x)
        return squared(self.readout(self.scan(torch.sigmoid(gate), torch.sigmoid(-gate) * self.value(x))), y)


class LRU(nn.Module):
    def __init__(self, scan, inputs, units, outputs):
        super().__init__()
        self.nu, self.phi = nn.Parameter(torch.zeros(units)), nn.Parameter(torch.zeros(units))
        self.inputs = nn.Parameter(torch.zeros(2, units, inputs))
        self.weight = nn.Parameter(torch.zeros(2, outputs, units))
        self.skip, self.scan = nn.Linear(inputs, outputs, bias=False), scan

    def forward(self, x, y):
        eigenvalues = torch.polar(torch.exp(-torch.exp(self.nu)), self.phi)
        drive = torch.complex(x @ self.inputs[0].T, x @ self.inputs[1].T)
        z = self.scan(eigenvalues.expand(drive.shape), drive)
        return squared(z.real @ self.weight[0].T - z.imag @ self.weight[1].T + self.skip(x), y)


class Block(nn.Module):
    def __init__(self, width, heads, before):
        super().__init__()
        self.heads, self.before = heads, before
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x):
        batch, length, width = x.shape
        parts = self.qkv(x).split(width, dim=2)
        q, k, v = (a.view(batch, length, self.heads, -1).transpose(1, 2) for a in parts)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        if self.before:
            x = x + self.attend(self.norm1(x))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
        x = self.norm1(x + self.attend(x))
        return self.norm2(x + self.down(F.relu(self.up(x))))


class Encoder(nn.Module):
    def __init__(self, width, heads, depth):
        super().__init__()
        self.blocks = nn.Sequential(*(Block(width, heads, before=False) for _ in range(depth)))

    def forward(self, x, y):
        return squared(self.blocks(x), y)


class LanguageModel(Causal):
    def __init__(self, vocabulary, length, width, heads, depth):
        super().__init__(vocabulary, length, width, heads, depth, 0.0)

    def forward(self, tokens):
        return super().forward(tokens[:, :-1], tokens[:, 1:])


class ViT(nn.Module):
    def __init__(self, patch, width, heads, depth, classes):
        super().__init__()
        self.patch = patch
        self.embedding = nn.Linear(patch**2, width)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.place = nn.Parameter(torch.zeros((28 // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(Block(width, heads, before=True) for _ in range(depth)))
        self.norm, self.readout = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x, y):
        n, p, side = len(x), self.patch, 28 // self.patch
        patches = x.view(n, side, p, side, p).transpose(2, 3).reshape(n, side**2, p**2)
        x = torch.cat([self.cls.expand(n, -1, -1), self.embedding(patches)], 1) + self.place
        # only what became of [CLS] is read
        return F.cross_entropy(self.readout(self.norm(self.blocks(x)[:, 0])), y)


class DeepSets(nn.Module):
    def __init__(self, phi, rho):
        super().__init__()
        self.phi, self.rho = mlp(*phi), mlp(*rho)

    def forward(self, x, y):
        return F.cross_entropy(self.rho(self.phi(x).sum(1)), y)


class TNet(nn.Module):
    def __init__(self, size, widths):
        super().__init__()
        features = widths[-1]
        self.each, self.pooled = mlp(size, *widths), mlp(features, features // 2, features // 4, size**2)
        self.size = size

    def forward(self, x):
        # ReLU after the maximum: the same, of fewer numbers
        matrix = self.pooled(F.relu(self.each(x).max(1)[0])).view(-1, self.size, self.size)
        return matrix + torch.eye(self.size)


class PointNet(nn.Module):
    def __init__(self, classes, local, features):
        super().__init__()
        widths = local, 2 * local, features
        self.input_net, self.feature_net = TNet(3, widths), TNet(local, widths)
        self.first, self.second = mlp(3, local, local), mlp(local, *widths)
        self.head = mlp(features, features // 2, features // 4, classes)

    def forward(self, x, y):
        hidden = F.relu(self.first(x @ self.input_net(x)))
        found = F.relu(self.second(hidden @ self.feature_net(hidden)).max(1)[0])
        return F.cross_entropy(self.head(found), y)


class GCN(nn.Module):
    """By the matrix, or with `sparse` by the edges."""

    def __init__(self, sparse, *sizes):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(n, m, bias=False) for n, m in itertools.pairwise(sizes))
        self.sparse = sparse

    def forward(self, adjacency, senders, receivers, x, y):
        scale = torch.rsqrt(1 + adjacency.sum(1))[:, None]
        for i, layer in enumerate(self.layers):
            x = scale * layer(F.relu(x) if i else x)
            x = scale * (x.index_add(0, receivers, x[senders]) if self.sparse else torch.addmm(x, adjacency, x))
        return F.cross_entropy(x, y)


class GAT(nn.Module):
    def __init__(self, sparse, sizes, heads):
        super().__init__()
        pairs = list(itertools.pairwise(sizes))
        self.layers = nn.ModuleList(nn.Linear(n, m, bias=False) for n, m in pairs)
        self.own = nn.ParameterList(torch.zeros(h, m // h) for (_, m), h in zip(pairs, heads, strict=True))
        self.other = nn.ParameterList(torch.zeros(h, m // h) for (_, m), h in zip(pairs, heads, strict=True))
        self.heads, self.sparse = heads, sparse

    def forward(self, adjacency, senders, receivers, x, y):
        count = len(x)
        if self.sparse:  # the loops are edges too
            own = torch.arange(count)
            senders, receivers = torch.cat([senders, own]), torch.cat([receivers, own])
        else:
            away = ~((adjacency > 0) | torch.eye(count, dtype=bool))
        for i, (layer, own, other, heads) in enumerate(zip(self.layers, self.own, self.other, self.heads, strict=True)):
            v = layer(F.relu(x) if i else x).view(count, heads, -1)
            a, b = (v * own).sum(-1), (v * other).sum(-1)
            if self.sparse:
                scores = F.leaky_relu(a[receivers] + b[senders], 0.2)
                to = receivers[:, None].expand(-1, heads)
                with torch.no_grad():
                    top = torch.full((count, heads), -torch.inf).scatter_reduce(0, to, scores, "amax")
                weights = torch.exp(scores - top[receivers])
                total = torch.zeros_like(v).index_add(0, receivers, weights[:, :, None] * v[senders])
                x = total / torch.zeros(count, heads).index_add(0, receivers, weights)[:, :, None]
            else:
                scores = F.leaky_relu(a.T[:, :, None] + b.T[:, None, :], 0.2).masked_fill(away, -torch.inf)
                x = (torch.softmax(scores, 2) @ v.transpose(0, 1)).transpose(0, 1)
            x = x.reshape(count, -1)
        return F.cross_entropy(x, y)


LAST = torch.channels_last

#: For every family the ways to write it. Data of recurrent networks come with the time first.
FAMILIES = {
    "LeNet": lambda c: [LeNet(), LeNet().to(memory_format=LAST)],
    "ResNet9": lambda c: [ResNet9(), ResNet9().to(memory_format=LAST)],
    "Elman": lambda c: [Recurrent("RNN", c["inputs"], c["units"], c["outputs"])],
    "LSTM": lambda c: [Recurrent("LSTM", c["inputs"], c["units"], c["outputs"])],
    "GRU": lambda c: [Recurrent("GRU", c["inputs"], c["units"], c["outputs"])],
    "minGRU": lambda c: [MinGRU(scan, c["inputs"], c["units"], c["outputs"]) for scan in (loop, doubling)],
    "LRU": lambda c: [LRU(scan, c["inputs"], c["units"], c["outputs"]) for scan in (loop, doubling)],
    "encoder": lambda c: [Encoder(c["width"], c["heads"], c["depth"])],
    "language model": lambda c: [LanguageModel(c["vocabulary"], c["length"], c["width"], c["heads"], c["depth"])],
    "ViT": lambda c: [ViT(c["patch"], c["width"], c["heads"], c["depth"], c["classes"])],
    "Deep Sets": lambda c: [DeepSets(c["phi"], c["rho"])],
    "PointNet": lambda c: [PointNet(c["classes"], c["local"], c["features"])],
    "GCN": lambda c: [GCN(sparse, *c["sizes"]) for sparse in (False, True)],
    "GAT": lambda c: [GAT(sparse, c["sizes"], c["heads"]) for sparse in (False, True)],
}


def tensor(array):
    found = torch.from_numpy(np.ascontiguousarray(array))
    return found if found.is_floating_point() else found.long()


def load(folder, compiled):
    """The calls of the family, each without arguments; the first results go to the folder."""
    given = np.load(f"{folder}/in.npz")
    about = json.loads(str(given["about"]))
    data = [tensor(given[f"data{i}"]) for i in range(about["data"])]
    weights = {name[7:]: tensor(given[name]) for name in given.files if name.startswith("weight:")}
    calls, first, out = [], 0.0, {}
    for model in FAMILIES[about["family"]](about["sizes"]):
        unknown = model.load_state_dict(weights, strict=False)
        if unknown.unexpected_keys:
            raise KeyError(unknown.unexpected_keys)
        parameters = dict(model.named_parameters())
        with torch.no_grad():  # what we do not have, such as a second bias, is zero
            for name in parameters.keys() - weights.keys():
                parameters[name].zero_()
        channels_last = any(p.ndim == 4 and p.is_contiguous(memory_format=LAST) for p in list(parameters.values())[2:])
        own = [a.contiguous(memory_format=LAST) if a.ndim == 4 and channels_last else a for a in data]
        forward = torch.compile(model) if compiled else model

        def call(forward=forward, own=own, parameters=parameters):
            loss = forward(*own)
            return loss, torch.autograd.grad(loss, list(parameters.values()))

        began = time.perf_counter()
        loss, gradients = call()
        first = max(first, time.perf_counter() - began)
        out = {name: g.numpy() for name, g in zip(parameters, gradients, strict=True) if name in weights}
        out["loss"] = loss.item()
        calls.append(call)
    np.savez(f"{folder}/out.npz", **out)
    return calls, first


def measure(call):
    began, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - began, time.process_time() - cpu


def main(threads, mode):
    torch.set_num_threads(int(threads))
    torch.manual_seed(0)
    calls = []
    for line in sys.stdin:
        order = json.loads(line)
        if "load" in order:
            calls, first = load(order["load"], mode == "compiled")
            answer = {"first": first, "version": torch.__version__}
        else:
            answer = [[measure(call) for _ in range(order["calls"])] for call in calls]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
