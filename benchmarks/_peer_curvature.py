"""Hessian-vector products by curvlinops and a Lanczos run by hessian-eigenthings; reads and writes `.npz` files."""

import os
import sys
import time

import numpy as np
import torch
from curvlinops import HessianLinearOperator
from hessian_eigenthings import HessianOperator, lanczos, supervised_loss

CLOCK = time.process_time if os.environ.get("CPU_CLOCK") else time.perf_counter


def main(inputs: str, outputs: str) -> None:
    given = np.load(inputs)
    torch.set_num_threads(int(given["threads"]))
    layers = int(given["layers"])
    modules = []
    for i in range(layers):
        w, b = torch.from_numpy(given[f"w{i}"]), torch.from_numpy(given[f"b{i}"])
        linear = torch.nn.Linear(*w.shape)
        linear.weight.data, linear.bias.data = w.T.contiguous(), b
        modules += [linear, torch.nn.Tanh()]
    model = torch.nn.Sequential(*modules[:-1])
    data = [(torch.from_numpy(given["x"]), torch.from_numpy(given["y"]))]
    loss = torch.nn.CrossEntropyLoss()
    found = {}

    params = {name: p for name, p in model.named_parameters() if p.requires_grad}
    try:
        operator = HessianLinearOperator(model, loss, params, data, check_deterministic=False)
    except (TypeError, AttributeError):
        operator = HessianLinearOperator(model, loss, list(params.values()), data, check_deterministic=False)
    vectors = torch.from_numpy(given["vectors"])
    operator @ vectors[:, 0]
    one, together = [], []
    for _ in range(int(given["repeats"])):
        began = CLOCK()
        columns = [operator @ vectors[:, j] for j in range(vectors.shape[1])]
        one.append(CLOCK() - began)
        began = CLOCK()
        operator @ vectors
        together.append(CLOCK() - began)
    found["products"] = torch.stack(columns, 1).detach().numpy()
    found["one_by_one"], found["together"] = min(one), min(together)

    steps, k = int(given["steps"]), int(given["k"])
    operator = HessianOperator(model, data, supervised_loss(loss))
    lanczos(operator, k=2, max_iter=2)
    times = []
    for _ in range(max(1, int(given["repeats"]) // 2)):
        began = CLOCK()
        pairs = lanczos(operator, k=k, max_iter=steps, reorthogonalize=True, which="LA", seed=0)
        times.append(CLOCK() - began)
    found["values"], found["lanczos"] = pairs.eigenvalues.numpy(), min(times)
    np.savez(outputs, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
