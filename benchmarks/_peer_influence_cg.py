"""Influence by dattri's conjugate gradients; reads and writes `.npz` files."""

import os
import sys
import time
import warnings

import numpy as np
import torch
from dattri.algorithm.influence_function import IFAttributorCG
from dattri.task import AttributionTask

CLOCK = time.process_time if os.environ.get("CPU_CLOCK") else time.perf_counter


def main(inputs: str, outputs: str) -> None:
    warnings.simplefilter("ignore")  # of dattri's own making
    given = np.load(inputs)
    torch.set_num_threads(int(given["threads"]))
    modules = []
    for i in range(int(given["layers"])):
        w, b = torch.from_numpy(given[f"w{i}"]), torch.from_numpy(given[f"b{i}"])
        linear = torch.nn.Linear(*w.shape)
        linear.weight.data, linear.bias.data = w.T.contiguous(), b
        modules += [linear, torch.nn.Tanh()]
    model = torch.nn.Sequential(*modules[:-1])

    def loss(params, data):
        x, y = data
        outputs = torch.func.functional_call(model, params, x.reshape(-1, x.shape[-1]))
        return torch.nn.functional.cross_entropy(outputs, y.reshape(-1).long())

    def loader(x, y):
        pairs = torch.utils.data.TensorDataset(torch.from_numpy(given[x]), torch.from_numpy(given[y]))
        return torch.utils.data.DataLoader(pairs, batch_size=len(pairs))

    train, test = loader("x", "y"), loader("z", "t")
    task = AttributionTask(loss_func=loss, model=model, checkpoints=model.state_dict())
    began = CLOCK()
    method = IFAttributorCG(task, max_iter=int(given["steps"]), tol=1e-7, regularization=float(given["damping"]))
    method.cache(train)
    scores = method.attribute(train, test)
    np.savez(outputs, seconds=CLOCK() - began, scores=scores.detach().numpy())


if __name__ == "__main__":
    main(*sys.argv[1:])
