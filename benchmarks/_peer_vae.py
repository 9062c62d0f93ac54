"""Training steps of the auto-encoder of `benchmarks/generative.py` in PyTorch; reads and writes `.npz` files.

Eager and compiled, whichever is quicker.
"""

import os
import sys
import time

import numpy as np
import torch
from torch.nn import functional as F

CLOCK = time.process_time if os.environ.get("CPU_CLOCK") else time.perf_counter


def network(given, side):
    layers = []
    for i in range(3):
        weight, bias = (torch.from_numpy(given[f"{side}.{i}.{what}"]) for what in ("weight", "bias"))
        layer = torch.nn.Linear(weight.shape[1], weight.shape[0])
        with torch.no_grad():
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)
        layers += [layer, torch.nn.Tanh()]
    return torch.nn.Sequential(*layers[:-1])


class Model(torch.nn.Module):
    def __init__(self, given):
        super().__init__()
        self.encoder, self.decoder = network(given, "encoder"), network(given, "decoder")

    def forward(self, x, eps):
        mean, log_variance = self.encoder(x).chunk(2, 1)
        logits = self.decoder(mean + torch.exp(log_variance / 2) * eps)
        entropy = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        apart = 0.5 * torch.sum(mean**2 + log_variance.exp() - 1 - log_variance)
        return (entropy + apart) / len(x)


def timed(model, call, x, latents, batch, steps, repeats):
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    times = []
    for _ in range(repeats + 1):
        began = CLOCK()
        for _ in range(steps):
            at = torch.randint(len(x), (batch,), device=x.device)
            loss = call(x[at], torch.randn(batch, latents, device=x.device))
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
        loss.item()
        times.append((CLOCK() - began) / steps)
    return min(times[1:])


def main(inputs: str, outputs: str) -> None:
    given = np.load(inputs)
    steps, repeats = int(given["steps"]), int(given["repeats"])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, eps = (torch.from_numpy(given[name]).to(device) for name in ("x", "eps"))
    batch, latents = eps.shape
    model = Model(given).to(device)
    with torch.no_grad():
        loss = model(x[:batch], eps).item()
    found = {"eager": timed(model, model, x, latents, batch, steps, repeats)}
    try:
        found["compiled"] = timed(model, torch.compile(model), x, latents, batch, steps, repeats)
    except Exception as error:  # no compiler on this machine, or one that does not fit
        print(f"torch.compile failed: {type(error).__name__}", file=sys.stderr)
    how = min(found, key=found.get)
    np.savez(outputs, seconds=found[how], how=how, loss=loss, version=torch.__version__)


if __name__ == "__main__":
    main(*sys.argv[1:])
