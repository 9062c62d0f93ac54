"""A step of PAC-Bayes training as PyTorch users write it, on layers like those of pacbb; reads and writes `.npz` files.

Every weight has a mean and a parameter whose softplus is its standard deviation. A forward pass draws all weights once
for the batch; the objective is the bounded logarithmic loss plus the root of the KL, and SGD with momentum descends it.
"""

import math
import os
import sys
import time
from itertools import pairwise

import numpy as np
import torch
from torch.nn import functional

LEAST = 1e-5  # probabilities are cut off here, so that the loss has a bound
CLOCK = time.process_time if os.environ.get("CPU_CLOCK") else time.perf_counter


class Normal(torch.nn.Module):
    """An array of independent normal weights, and the prior that it started from."""

    def __init__(self, mean, scale):
        super().__init__()
        self.mean = torch.nn.Parameter(mean.clone())
        self.rho = torch.nn.Parameter(torch.full_like(mean, math.log(math.expm1(scale))))
        self.register_buffer("centre", mean.clone())
        self.width = scale

    def forward(self):
        return self.mean + functional.softplus(self.rho) * torch.randn_like(self.mean)

    def kl(self):
        scale = functional.softplus(self.rho)
        ratio = (scale**2 + (self.mean - self.centre) ** 2) / self.width**2
        return 0.5 * (ratio - 1).sum() - torch.log(scale / self.width).sum()


class Layer(torch.nn.Module):
    def __init__(self, inputs, outputs, scale=0.03):
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = Normal(torch.empty(outputs, inputs).uniform_(-bound, bound), scale)
        self.bias = Normal(torch.zeros(outputs), scale)

    def forward(self, x):
        return functional.linear(x, self.weight(), self.bias())

    def kl(self):
        return self.weight.kl() + self.bias.kl()


def main(inputs: str, outputs: str) -> None:
    given = np.load(inputs)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, y = (torch.from_numpy(given[name]).to(device) for name in ("x", "y"))
    torch.manual_seed(0)
    sizes = given["sizes"].tolist()
    layers = torch.nn.ModuleList(Layer(n, m) for n, m in pairwise(sizes)).to(device)
    optimiser = torch.optim.SGD(layers.parameters(), lr=1e-3, momentum=0.95)
    n, batch_size = len(x), int(given["batch_size"])

    def step(rows):
        optimiser.zero_grad()
        h = x[rows]
        for layer in layers[:-1]:
            h = functional.relu(layer(h))
        logs = functional.log_softmax(layers[-1](h), 1).clamp(min=math.log(LEAST))
        loss = functional.nll_loss(logs, y[rows]) / math.log(1 / LEAST)
        kl = sum(layer.kl() for layer in layers)
        objective = loss + torch.sqrt((kl + math.log(2 * math.sqrt(n) / 0.025)) / (2 * n))
        objective.backward()
        optimiser.step()
        return objective

    def run(steps):
        order = torch.randint(n, (steps, batch_size), device=device)
        for rows in order:
            last = step(rows)
        last.item()  # waits for the device

    times = []
    for threads in {1, torch.get_num_threads()}:  # threads that wait for each other cost time where cores are shared
        torch.set_num_threads(threads)
        run(10)
        for _ in range(int(given["repeats"])):
            began = CLOCK()
            run(int(given["steps"]))
            times.append(CLOCK() - began)
    np.savez(outputs, seconds=np.array(times) / int(given["steps"]), version=torch.__version__)


if __name__ == "__main__":
    main(*sys.argv[1:])
