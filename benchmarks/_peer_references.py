"""Run by benchmarks/references.py with the Python of torchattacks, foolbox and captum.

    python _peer_references.py INPUT.npz OUTPUT.npz

Attacks from the images themselves, without random starts, and integrated gradients, of a dense network given by arrays.
"""

import sys

import numpy as np
import torch
from torch import nn


def main(source, target):
    import foolbox
    import torchattacks
    from captum.attr import IntegratedGradients

    given = np.load(source)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).eval()
    with torch.no_grad():
        for parameter, name in zip(network.parameters(), ("w", "b", "v", "c"), strict=True):
            parameter.copy_(torch.tensor(given[name]))
    x, y = torch.tensor(given["x"]).reshape(-1, 1, 8, 8), torch.tensor(given["y"])
    cube, ball, steps = float(given["cube"]), float(given["ball"]), int(given["steps"])
    length = 2.5 / steps
    ours = foolbox.PyTorchModel(network, bounds=(0, 1))

    def of_foolbox(attack, radius):
        return attack(ours, x, y, epsilons=radius)[1]

    found = {
        "torchattacks_fgsm": torchattacks.FGSM(network, eps=cube)(x, y),
        "torchattacks_inf": torchattacks.PGD(network, cube, length * cube, steps, random_start=False)(x, y),
        "torchattacks_2": torchattacks.PGDL2(network, ball, length * ball, steps, random_start=False)(x, y),
        "foolbox_fgsm": of_foolbox(foolbox.attacks.FGSM(), cube),
        "foolbox_inf": of_foolbox(foolbox.attacks.LinfPGD(rel_stepsize=length, steps=steps, random_start=False), cube),
        "foolbox_2": of_foolbox(foolbox.attacks.L2PGD(rel_stepsize=length, steps=steps, random_start=False), ball),
    }
    pixels = x[:8].double()
    exact = IntegratedGradients(network.double())
    summed = exact.attribute(pixels, torch.zeros_like(pixels), target=y[:8], n_steps=500, method="gausslegendre")
    found["captum"] = summed.float()
    np.savez_compressed(target, **{name: a.detach().numpy().reshape(-1, 64) for name, a in found.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
