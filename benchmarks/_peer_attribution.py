"""Exact Shapley values by shap and integrated gradients by captum; reads and writes `.npz` files."""

import os
import sys
import time

import numpy as np
import shap
import torch
from captum.attr import IntegratedGradients

CLOCK = time.process_time if os.environ.get("CPU_CLOCK") else time.perf_counter


def best(function, repeats):
    times = []
    for _ in range(repeats + 1):
        began = CLOCK()
        result = function()
        times.append(CLOCK() - began)
    return min(times[1:]), result


def main(inputs: str, outputs: str) -> None:
    given = np.load(inputs)
    torch.set_num_threads(int(given["threads"]))
    repeats, x, background = int(given["repeats"]), given["x"], given["background"]
    layers = [(given[f"w{i}"], given[f"b{i}"]) for i in range(int(given["layers"]))]
    modules = []
    for w, b in layers:
        linear = torch.nn.Linear(*w.shape)
        linear.weight.data, linear.bias.data = torch.from_numpy(w.T).float(), torch.from_numpy(b).float()
        modules += [linear, torch.nn.ReLU()]
    model = torch.nn.Sequential(*modules[:-1])

    def with_numpy(rows):
        for w, b in layers[:-1]:
            rows = np.maximum(rows @ w + b, 0)
        return (rows @ layers[-1][0] + layers[-1][1])[:, 0]

    def with_torch(rows):
        with torch.inference_mode():
            return model(torch.from_numpy(np.asarray(rows, np.float32)))[:, 0].numpy()

    found = {}
    masker = shap.maskers.Independent(background, max_samples=len(background))
    for name, function in (("numpy", with_numpy), ("torch", with_torch)):
        explainer = shap.explainers.Exact(function, masker)
        seconds, explained = best(lambda: explainer(x, silent=True), repeats)  # noqa: B023
        found[name] = seconds / len(x)
        if name == "numpy":  # in double precision
            found["values"] = explained.values

    rows, baseline = torch.from_numpy(x).float(), torch.from_numpy(background[:1]).float()
    method = IntegratedGradients(model)
    found["steps"] = np.array([50, 200, 1000])
    for steps in found["steps"]:
        options = dict(baselines=baseline, target=0, n_steps=int(steps), return_convergence_delta=True)
        seconds, (values, delta) = best(lambda: method.attribute(rows, **options), repeats)  # noqa: B023
        found[f"seconds{steps}"], found[f"gap{steps}"] = seconds, float(delta.abs().max())
    found["integrated"] = values.numpy()  # with the most nodes
    np.savez(outputs, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
