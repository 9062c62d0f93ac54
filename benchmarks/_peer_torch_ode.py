"""Run by benchmarks/differential.py with a Python that has PyTorch and torchdiffeq.

    python _peer_torch_ode.py WEIGHTS.npz ITERATIONS REPEATS

Prints a line of JSON: the loss of Example 1 at the given weights, and wall and CPU seconds of one iteration written as
a plain loop over the steps, by torchdiffeq, and by the adjoint of torchdiffeq.
"""

import json
import sys
import time

import numpy as np
import torch
from torchdiffeq import odeint, odeint_adjoint

STEPS, STEP = 100, 0.01


class Field(torch.nn.Module):
    def __init__(self, given):
        super().__init__()
        self.layers = torch.nn.ModuleList()
        for i in range(3):
            w, b = (torch.tensor(given[f"{name}{i}"]) for name in "wb")
            layer = torch.nn.Linear(w.shape[1], w.shape[0])
            layer.weight.data, layer.bias.data = w, b
            self.layers.append(layer)

    def forward(self, t, u):
        for layer in self.layers[:-1]:
            u = torch.relu(layer(u))
        return self.layers[-1](u)


def by_loop(field, times):
    u, out = torch.ones(1), [torch.ones(1)]
    for t in times[:-1]:
        u = u + STEP * field(t, u)
        out.append(u)
    return torch.stack(out)


def timed(given, path, iterations, repeats):
    field, target = Field(given), torch.tensor(given["u"])
    times = STEP * torch.arange(STEPS + 1, dtype=torch.float32)
    optimiser = torch.optim.RMSprop(field.parameters(), lr=1e-4, alpha=0.99)
    wall, busy, first = [], [], None
    for _ in range(repeats + 1):
        began = time.perf_counter(), time.process_time()
        for _ in range(iterations):
            loss = 0.5 * STEP * ((path(field, times) - target) ** 2).sum()
            first = float(loss) if first is None else first
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        wall.append((time.perf_counter() - began[0]) / iterations)
        busy.append((time.process_time() - began[1]) / iterations)
    return first, [min(wall[1:]), min(busy[1:])]


def main(file, iterations, repeats):
    given = dict(np.load(file))
    ways = {
        "listing": by_loop,
        "torchdiffeq": lambda f, t: odeint(f, torch.ones(1), t, method="euler"),
        "adjoint of torchdiffeq": lambda f, t: odeint_adjoint(f, torch.ones(1), t, method="euler"),
    }
    out = {"version": torch.__version__}
    for name, path in ways.items():
        out["loss"], out[name] = timed(given, path, iterations, repeats)
    print(json.dumps(out))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
