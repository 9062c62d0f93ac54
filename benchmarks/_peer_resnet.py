"""ResNet9 of `benchmarks/resnet.py` in PyTorch, written for speed; reads and writes `.npz`.

Channels last, bfloat16 by `autocast` with float32 parameters, `torch.compile`, fused SGD, batches taken on the device.
"""

import contextlib
import sys
import time

import numpy as np
import torch
from torch.nn import functional as F

WIDTHS = ((3, 64), (64, 128), (128, 128), (128, 128), (128, 256), (256, 512), (512, 512), (512, 512))


class ResNet9(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = torch.nn.ModuleList(torch.nn.Conv2d(m, n, 3, padding=1) for m, n in WIDTHS)
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(n) for _, n in WIDTHS)
        self.head = torch.nn.Linear(512, 10)

    def forward(self, x):
        block = lambda i, x: F.relu(self.norms[i](self.convs[i](x)))  # noqa: E731
        x = F.max_pool2d(block(1, block(0, x)), 2)
        x = x + block(3, block(2, x))
        x = F.max_pool2d(block(4, x), 2)
        x = F.max_pool2d(block(5, x), 2)
        x = x + block(7, block(6, x))
        return self.head(F.max_pool2d(x, 4).flatten(1))


def main(inputs: str, outputs: str) -> None:
    given = np.load(inputs)
    batch, steps, repeats = (int(given[name]) for name in ("batch", "steps", "repeats"))
    gpu = torch.cuda.is_available()
    device = "cuda" if gpu else "cpu"
    if gpu:
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = True
    else:
        torch.set_num_threads(int(given["threads"]))
    model = ResNet9()
    with torch.no_grad():
        for i, conv in enumerate(model.convs):
            conv.weight.copy_(torch.from_numpy(given[f"kernel{i}"]))
            conv.bias.zero_()
        model.head.weight.copy_(torch.from_numpy(given["head"]))
        model.head.bias.zero_()
    model = model.to(device, memory_format=torch.channels_last)
    x = torch.from_numpy(given["x"]).to(device, memory_format=torch.channels_last)
    y = torch.from_numpy(given["y"]).long().to(device)

    # the loss of one batch in single precision, to see that both sides compute the same
    model.train()
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = False, False
    with torch.no_grad():
        start_loss = F.cross_entropy(model(x[:batch]), y[:batch]).item()
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = True, True

    half = torch.autocast("cuda", dtype=torch.bfloat16) if gpu else contextlib.nullcontext()
    fast = torch.compile(lambda x, y: F.cross_entropy(model(x), y))
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=gpu)

    def stretch(count):
        began = time.perf_counter()
        for i in range(count):
            if i % (len(x) // batch) == 0:
                order = torch.randperm(len(x), device=device)
            at = order[i % (len(x) // batch) * batch :][:batch]
            with half:
                loss = fast(x[at], y[at])
            loss.backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        if gpu:
            torch.cuda.synchronize()
        return time.perf_counter() - began

    compiling = stretch(3)
    seconds = [stretch(steps) for _ in range(repeats)]
    np.savez(outputs, seconds=seconds, compiling=compiling, loss=start_loss, version=torch.__version__)


if __name__ == "__main__":
    main(*sys.argv[1:])
