"""Steps of SGD watched by Cockpit in its three configurations; reads and writes `.npz` files."""

import os
import sys
import time
import warnings

import numpy as np
import torch
from backpack import extend
from cockpit import Cockpit
from cockpit.utils.configuration import configuration

CLOCK = time.process_time if os.environ.get("CPU_CLOCK") else time.perf_counter
warnings.simplefilter("ignore")


def main(inputs: str, outputs: str) -> None:
    given = np.load(inputs)
    torch.set_num_threads(int(given["threads"]))
    x, y = torch.from_numpy(given["x"]), torch.from_numpy(given["y"])
    size, repeats, rate = int(given["batch"]), int(given["repeats"]), float(given["rate"])
    found = {}
    for label in ("none", "economy", "business", "full"):
        modules = []
        for i in range(int(given["layers"])):
            w, b = torch.from_numpy(given[f"w{i}"]), torch.from_numpy(given[f"b{i}"])
            linear = torch.nn.Linear(*w.shape)
            linear.weight.data, linear.bias.data = w.T.contiguous(), b.clone()
            modules += [linear, torch.nn.ReLU()]
        model = extend(torch.nn.Sequential(*modules[:-1]))
        mean, each = extend(torch.nn.CrossEntropyLoss()), torch.nn.CrossEntropyLoss(reduction="none")
        optimiser = torch.optim.SGD(model.parameters(), lr=rate)
        cockpit = None if label == "none" else Cockpit(model.parameters(), quantities=configuration(label))
        times = []
        for step in range(repeats + 2):
            rows = slice(0, size)  # the same batch: ours is measured on it
            began = CLOCK()
            optimiser.zero_grad()
            out = model(x[rows])
            loss = mean(out, y[rows])
            if cockpit is None:
                loss.backward()
            else:
                info = {
                    "batch_size": size,
                    "individual_losses": each(out, y[rows]),
                    "loss": loss,
                    "optimizer": optimiser,
                }
                create = cockpit.create_graph(step)
                with cockpit(step, info=info):
                    loss.backward(create_graph=create)
            optimiser.step()
            times.append(CLOCK() - began)
        found[label] = min(times[1:])
        if label == "full":
            seen = cockpit.get_output() if hasattr(cockpit, "get_output") else cockpit.output
            for q in cockpit.quantities:
                seen[type(q).__name__] = q.get_output()
            for name in ("Loss", "HessMaxEV", "NormTest", "InnerTest", "OrthoTest"):
                found[name] = float(np.asarray(seen[name][0], float))
            found["GradNorm"] = float(np.sqrt(np.sum(np.asarray(seen["GradNorm"][0], float) ** 2)))
            found["HessTrace"] = float(np.sum(np.asarray(seen["HessTrace"][0], float)))
    np.savez(outputs, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
