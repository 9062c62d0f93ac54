"""The U-Net of `benchmarks/unet.py` in PyTorch, written for speed; reads and writes `.npz`.

Channels last, bfloat16 by `autocast` with float32 parameters, `torch.compile`, fused Adam, batches and noise made on
the device.
"""

import contextlib
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def conv(inputs, outputs, size=3):
    return nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False)


class Block(nn.Module):
    def __init__(self, inputs, outputs, embedded):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, inputs), conv(inputs, outputs)
        self.norm2, self.conv2 = nn.GroupNorm(8, outputs), conv(outputs, outputs)
        self.embedding = nn.Linear(embedded, outputs, bias=False)
        self.shortcut = nn.Identity() if inputs == outputs else conv(inputs, outputs, 1)

    def forward(self, x, e):
        out = self.conv1(F.silu(self.norm1(x))) + self.embedding(e)[:, :, None, None]
        return self.conv2(F.silu(self.norm2(out))) + self.shortcut(x)


class Attention(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm, self.queries = nn.GroupNorm(8, channels), nn.Linear(channels, 3 * channels, bias=False)
        self.out = nn.Linear(channels, channels, bias=False)

    def forward(self, x):
        n, c, h, w = x.shape
        flat = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = self.queries(flat).view(n, h * w, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, h * w, c)
        return x + self.out(found).transpose(1, 2).view(n, c, h, w)


class UNet(nn.Module):
    def __init__(self, widths, classes, frequencies):
        super().__init__()
        first, end, embedded = widths[0], widths[-1], 4 * widths[0]
        self.first = conv(1, first)
        self.time1 = nn.Linear(2 * len(frequencies), embedded, bias=False)
        self.time2 = nn.Linear(embedded, embedded, bias=False)
        self.labels = nn.Embedding(classes, embedded)
        self.down = nn.ModuleList(Block(a, b, embedded) for a, b in zip([first, *widths[:-1]], widths, strict=True))
        self.before, self.attention, self.after = Block(end, end, embedded), Attention(end), Block(end, end, embedded)
        pairs = list(zip([*widths[1:], end], widths, strict=True))[::-1]
        self.up = nn.ModuleList(Block(a + b, b, embedded) for a, b in pairs)
        self.norm, self.last = nn.GroupNorm(8, first), conv(first, 1)
        self.register_buffer("frequencies", torch.tensor(frequencies))

    def forward(self, x, level, label):
        angles = 0.5 * (torch.log1p(-level) - torch.log(level))[:, None] * self.frequencies
        hidden = F.silu(self.time1(torch.cat([angles.cos(), angles.sin()], 1)))
        e = F.silu(self.time2(hidden) + self.labels(label))
        h, seen = self.first(x), []
        for i, block in enumerate(self.down):
            h = block(F.avg_pool2d(h, 2) if i else h, e)
            seen.append(h)
        h = self.after(self.attention(self.before(h, e)), e)
        for i, block in enumerate(self.up):
            h = block(torch.cat([F.interpolate(h, scale_factor=2) if i else h, seen.pop()], 1), e)
        return self.last(F.silu(self.norm(h)))


def main(inputs: str, outputs: str) -> None:
    given = np.load(inputs)
    batch, steps, repeats, count = (int(given[name]) for name in ("batch", "steps", "repeats", "count"))
    gpu = torch.cuda.is_available()
    device = "cuda" if gpu else "cpu"
    if gpu:
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = True
    else:
        torch.set_num_threads(int(given["threads"]))
    model = UNet(given["widths"].tolist(), 10, given["frequencies"].tolist())
    parameters = list(model.parameters())
    assert sum(p.numel() for p in parameters) == count, "the two networks do not have as many parameters"
    with torch.no_grad():
        for i, p in enumerate(parameters):
            p.copy_(torch.from_numpy(given[f"array{i}"]))
    model = model.to(device, memory_format=torch.channels_last)
    x, y, levels, eps, at = (torch.from_numpy(given[name]).to(device) for name in ("x", "y", "levels", "eps", "at"))
    y = y.long()

    def loss(x, y, t, eps):
        level = levels[t]
        share = level[:, None, None, None]
        missed = eps - model(share.sqrt() * x + (1 - share).sqrt() * eps, level, y).float()
        return (missed**2).sum((1, 2, 3)).mean()

    # the loss of one batch in single precision, to see that both sides compute the same
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = False, False
    with torch.no_grad():
        start_loss = loss(x[:batch], y[:batch], at.long(), eps).item()
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = True, True

    half = torch.autocast("cuda", dtype=torch.bfloat16) if gpu else contextlib.nullcontext()
    fast = torch.compile(loss)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, fused=gpu)

    def stretch(count):
        began = time.perf_counter()
        for i in range(count):
            if i % (len(x) // batch) == 0:
                order = torch.randperm(len(x), device=device)
            at = order[i % (len(x) // batch) * batch :][:batch]
            t = torch.randint(1, len(levels), (batch,), device=device)
            with half:
                value = fast(x[at], y[at], t, torch.randn(batch, *x.shape[1:], device=device))
            value.backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        if gpu:
            torch.cuda.synchronize()
        return time.perf_counter() - began

    compiling = stretch(3)
    seconds = [stretch(steps) for _ in range(repeats)]
    np.savez(outputs, seconds=seconds, compiling=compiling, loss=start_loss / 784, version=torch.__version__)


if __name__ == "__main__":
    main(*sys.argv[1:])
