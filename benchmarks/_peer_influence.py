"""Influence by captum's Arnoldi iteration; reads and writes `.npz` files."""

import os
import sys
import tempfile
import time
import warnings

import numpy as np
import torch
from captum.influence._core.arnoldi_influence_function import ArnoldiInfluenceFunction

CLOCK = time.process_time if os.environ.get("CPU_CLOCK") else time.perf_counter


def main(inputs: str, outputs: str) -> None:
    warnings.simplefilter("ignore")  # of captum's own making
    given = np.load(inputs)
    torch.set_num_threads(int(given["threads"]))
    modules = []
    for i in range(int(given["layers"])):
        w, b = torch.from_numpy(given[f"w{i}"]), torch.from_numpy(given[f"b{i}"])
        linear = torch.nn.Linear(*w.shape)
        linear.weight.data, linear.bias.data = w.T.contiguous(), b
        modules += [linear, torch.nn.Tanh()]
    model = torch.nn.Sequential(*modules[:-1])
    train = torch.utils.data.TensorDataset(torch.from_numpy(given["x"]), torch.from_numpy(given["y"]))
    test = torch.from_numpy(given["z"]), torch.from_numpy(given["t"])
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "weights.pt")
        torch.save(model.state_dict(), path)
        # the gradients of single examples by hooks on a whole batch, or one example after the other
        for name, together in (("together", True), ("apart", False)):
            times = []
            for _ in range(int(given["repeats"])):
                began = CLOCK()
                arnoldi = ArnoldiInfluenceFunction(
                    model,
                    train,
                    path,
                    loss_fn=torch.nn.CrossEntropyLoss(reduction="sum" if together else "none"),
                    batch_size=len(train),
                    sample_wise_grads_per_batch=together,
                    projection_dim=int(given["rank"]),
                    arnoldi_dim=int(given["steps"]),
                    hessian_reg=float(given["damping"]) * len(train),
                )
                scores = arnoldi.influence(test)
                times.append(CLOCK() - began)
            found[name], found[f"{name}_scores"] = min(times), scores.detach().numpy()
    np.savez(outputs, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
