"""The decoder-only transformer of `benchmarks/transformer.py` in PyTorch, compiled and fused; reads and writes `.npz`.

Written as one would for speed: one matrix product for queries, keys and values, PyTorch's fused attention, bfloat16 by
`autocast` with float32 parameters, the fused AdamW, `torch.compile` of the whole model with its loss, batches drawn on
the device, no synchronisation inside the timed stretch.
"""

import contextlib
import sys
import time

import numpy as np
import torch
from torch.nn import functional as F


class Block(torch.nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width, bias=False)
        self.out = torch.nn.Linear(width, width, bias=False)
        self.up = torch.nn.Linear(width, 4 * width, bias=False)
        self.down = torch.nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).split(width, dim=2)
        q, k, v = (a.view(batch, length, self.heads, -1).transpose(1, 2) for a in parts)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        a = self.out(a.transpose(1, 2).reshape(batch, length, width))
        x = x + F.dropout(a, self.dropout, self.training)
        m = self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
        return x + F.dropout(m, self.dropout, self.training)


class Model(torch.nn.Module):
    def __init__(self, vocabulary, length, width, heads, depth, dropout):
        super().__init__()
        self.vocabulary, self.dropout = vocabulary, dropout
        self.token = torch.nn.Embedding(vocabulary + 1, width)
        self.place = torch.nn.Embedding(length, width)
        self.blocks = torch.nn.ModuleList(Block(width, heads, dropout) for _ in range(depth))
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.place.weight[: tokens.shape[1]]
        x = F.dropout(x, self.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.token.weight[: self.vocabulary])
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def load(model, given):
    """Our weights: the blocks lie along a leading axis, weights are (out, in) on both sides."""
    with torch.no_grad():
        model.token.weight.copy_(torch.from_numpy(given["token"]))
        model.place.weight.copy_(torch.from_numpy(given["place"]))
        for i, block in enumerate(model.blocks):
            qkv = np.concatenate([given[name][i] for name in ("query", "key", "value")])
            for layer, weight in (
                (block.qkv, qkv),
                (block.out, given["output"][i]),
                (block.up, given["up"][i]),
                (block.down, given["down"][i]),
            ):
                layer.weight.copy_(torch.from_numpy(weight))


def main(inputs: str, outputs: str) -> None:
    given = np.load(inputs)
    sizes = {name: int(given[name]) for name in ("vocabulary", "length", "width", "heads", "depth")}
    batch, steps, repeats = (int(given[name]) for name in ("batch", "steps", "repeats"))
    dropout = float(given["dropout"])
    gpu = torch.cuda.is_available()
    device = "cuda" if gpu else "cpu"
    if gpu:
        torch.set_float32_matmul_precision("high")
    else:
        torch.set_num_threads(int(given["threads"]))
    model = Model(**sizes, dropout=dropout).to(device)
    load(model, given)
    half = torch.autocast("cuda", dtype=torch.bfloat16) if gpu else contextlib.nullcontext()
    text = torch.from_numpy(given["text"]).long().to(device)
    window = torch.arange(sizes["length"] + 1, device=device)

    # the loss of one batch in single precision, to see that both sides compute the same
    model.eval()
    fixed = text[torch.from_numpy(given["starts"]).to(device)[:, None] + window]
    with torch.no_grad():
        start_loss = model(fixed[:, :-1], fixed[:, 1:]).item()

    model.train()
    fast = torch.compile(model)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.99), weight_decay=0.1, fused=gpu)

    def step():
        at = torch.randint(len(text) - sizes["length"] - 1, (batch,), device=device)
        tokens = text[at[:, None] + window]
        with half:
            loss = fast(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    def stretch(count):
        began = time.perf_counter()
        for _ in range(count):
            step()
        if gpu:
            torch.cuda.synchronize()
        return time.perf_counter() - began

    compiling = stretch(5)
    seconds = [stretch(steps) for _ in range(repeats)]
    np.savez(outputs, seconds=seconds, compiling=compiling, loss=start_loss, version=torch.__version__)


if __name__ == "__main__":
    main(*sys.argv[1:])
