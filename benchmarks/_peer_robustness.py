"""Run by benchmarks/robustness.py with the Python of torchattacks and foolbox: attacks on networks given by arrays.

    python _peer_robustness.py INPUT.npz OUTPUT.npz

Writes the inputs that every attack found, its best seconds and CPU seconds, and the outputs of both networks. On a GPU
where there is one, with the same rough products of single precision that XLA takes.
"""

import sys
import time

import numpy as np


def networks(given):
    """The dense and the convolutional network, with the arrays of ours."""
    import torch
    from torch import nn

    def filled(network, name):
        arrays = [torch.tensor(given[f"{name}_{i}"]) for i in range(len(list(network.parameters())))]
        with torch.no_grad():
            for parameter, array in zip(network.parameters(), arrays, strict=True):
                parameter.copy_(array.reshape(parameter.shape))
        return network.eval()

    dense = nn.Sequential(
        nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    )
    stages = [nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    stages += [nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    convolutional = nn.Sequential(*stages, nn.Flatten(), nn.Linear(1568, 128), nn.ReLU(), nn.Linear(128, 10))
    return {"dense": filled(dense, "dense"), "CNN": filled(convolutional, "CNN")}


def ascent(network, p, radius, steps):
    """A plain loop: random start, steps along the sign or the unit vector of the gradient, back into ball and box."""
    import torch

    length = 2.5 * radius / steps

    def lengths(a):
        return a.flatten(1).norm(dim=1).clamp_min(1e-12).view(-1, 1, 1, 1)

    def within(shift):
        return shift.clamp(-radius, radius) if p == "inf" else shift * (radius / lengths(shift)).clamp_max(1)

    def run(x, y):
        z = (x + within(torch.empty_like(x).uniform_(-radius, radius))).clamp(0, 1)
        for _ in range(steps):
            z = z.detach().requires_grad_()
            (slope,) = torch.autograd.grad(torch.nn.functional.cross_entropy(network(z), y), z)
            with torch.no_grad():
                moved = z + length * (slope.sign() if p == "inf" else slope / lengths(slope))
                z = (x + within(moved - x)).clamp(0, 1)
        return z

    return run


def attacks(network, steps, radii, plain):
    """By name: functions of images and labels."""
    if plain:
        return {f"plain {p}": ascent(network, p, radius, steps) for p, radius in zip(("inf", "2"), radii, strict=True)}
    import foolbox
    import torchattacks

    cube, ball = radii
    ours = foolbox.PyTorchModel(network, bounds=(0, 1))

    def of_foolbox(attack, radius):
        return lambda x, y: attack(ours, x, y, epsilons=radius)[1]

    return {
        "torchattacks inf": torchattacks.PGD(network, eps=cube, alpha=2.5 * cube / steps, steps=steps),
        "torchattacks 2": torchattacks.PGDL2(network, eps=ball, alpha=2.5 * ball / steps, steps=steps),
        "foolbox inf": of_foolbox(foolbox.attacks.LinfPGD(steps=steps), cube),
        "foolbox 2": of_foolbox(foolbox.attacks.L2PGD(steps=steps), ball),
    }


def main(source, target):
    import torch

    given, out = np.load(source), {}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    finish = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    x, y = torch.tensor(given["x"], device=device), torch.tensor(given["y"], device=device).long()
    for name, network in networks(given).items():
        network = network.to(device)
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        with torch.no_grad():
            out[f"{name} outputs"] = network(x).cpu().numpy()
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
        for attack, run in attacks(network, int(given["steps"]), given["radii"].tolist(), bool(given["plain"])).items():
            wall, cpu = [], []
            for _ in range(int(given["repeats"]) + 1):
                began, busy = time.perf_counter(), time.process_time()
                found = run(x, y)
                finish()
                wall.append(time.perf_counter() - began)
                cpu.append(time.process_time() - busy)
            out[f"{name} {attack}"] = found.detach().cpu().numpy()
            out[f"{name} {attack} seconds"] = np.array([min(wall[1:]), min(cpu[1:])])
    np.savez(target, **out)


if __name__ == "__main__":
    main(*sys.argv[1:])
