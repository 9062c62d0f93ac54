"""Certificates by the adversarial-robustness-toolbox; reads and writes `.npz` files."""

import sys
import time

import numpy as np
import torch
from art.estimators.certification.randomized_smoothing import PyTorchRandomizedSmoothing
from scipy.stats import norm


def main(inputs: str, outputs: str) -> None:
    given = np.load(inputs)
    modules = []
    for i in range(int(given["layers"])):
        weight, bias = torch.from_numpy(given[f"w{i}"]), torch.from_numpy(given[f"b{i}"])
        linear = torch.nn.Linear(weight.shape[1], weight.shape[0])
        linear.weight.data, linear.bias.data = weight, bias
        modules += [linear, torch.nn.ReLU()]
    smoothed = PyTorchRandomizedSmoothing(
        torch.nn.Sequential(*modules[:-1]),
        torch.nn.CrossEntropyLoss(),
        input_shape=(784,),
        nb_classes=10,
        sample_size=100,
        scale=float(given["scale"]),
        alpha=float(given["alpha"]),
        device_type="cpu",
    )
    x, samples = given["x"], int(given["samples"])
    smoothed.certify(x[:1], n=samples, batch_size=2048)
    began, busy = time.perf_counter(), time.process_time()
    labels, radii = smoothed.certify(x, n=samples, batch_size=2048)
    taken = np.array([time.perf_counter() - began, time.process_time() - busy])
    # what it would certify with the votes that were counted here
    ends = np.array([smoothed._lower_confidence_bound(int(votes), samples) for votes in given["votes"]])
    of_votes = np.where(ends < 0.5, 0.0, smoothed.scale * norm.ppf(ends))
    np.savez(outputs, labels=labels, radii=radii, seconds=taken, of_votes=of_votes)


if __name__ == "__main__":
    main(*sys.argv[1:])
