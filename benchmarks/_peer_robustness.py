"""Run by benchmarks/robustness.py with the Python of torchattacks and foolbox: attacks on networks given by arrays.

    python _peer_robustness.py INPUT.npz OUTPUT.npz

Writes the inputs that every attack found, its best seconds and CPU seconds, and the outputs of both networks.
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


def attacks(network, steps, radii):
    """By name: functions of images and labels."""
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
    x, y = torch.tensor(given["x"]), torch.tensor(given["y"]).long()
    for name, network in networks(given).items():
        with torch.no_grad():
            out[f"{name} outputs"] = network(x).numpy()
        for attack, run in attacks(network, int(given["steps"]), given["radii"].tolist()).items():
            wall, cpu = [], []
            for _ in range(int(given["repeats"])):
                began, busy = time.perf_counter(), time.process_time()
                found = run(x, y)
                wall.append(time.perf_counter() - began)
                cpu.append(time.process_time() - busy)
            out[f"{name} {attack}"] = found.detach().numpy()
            out[f"{name} {attack} seconds"] = np.array([min(wall), min(cpu)])
    np.savez(target, **out)


if __name__ == "__main__":
    main(*sys.argv[1:])
