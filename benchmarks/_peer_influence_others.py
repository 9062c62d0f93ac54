"""Influence by pyDVL's conjugate gradients, or by TRAK's projections; reads and writes `.npz` files."""

import logging
import os
import sys
import tempfile
import time
import warnings

import numpy as np
import torch

CLOCK = time.process_time if os.environ.get("CPU_CLOCK") else time.perf_counter


def network(given):
    modules = []
    for i in range(int(given["layers"])):
        w, b = torch.from_numpy(given[f"w{i}"]), torch.from_numpy(given[f"b{i}"])
        linear = torch.nn.Linear(*w.shape)
        linear.weight.data, linear.bias.data = w.T.contiguous(), b
        modules += [linear, torch.nn.Tanh()]
    return torch.nn.Sequential(*modules[:-1]).eval()


def conjugate(model, x, y, z, t, given):
    """Scores (test, train) by the Hessian of the mean loss."""
    from pydvl.influence import InfluenceMode
    from pydvl.influence.torch import CgInfluence

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=len(x))
    options = {"maxiter": int(given["steps"]), "rtol": 1e-7, "atol": 0.0, "warn_on_max_iteration": False}
    made = CgInfluence(
        model,
        torch.nn.functional.cross_entropy,
        regularization=float(given["damping"]),
        solve_simultaneously=bool(given["together"]),
        **options,
    )
    return made.fit(loader).influences(z, t, x, y, mode=InfluenceMode.Up)


def projected(model, x, y, z, t, given):
    """Scores (test, train) by the gradients of margins, projected."""
    from trak import TRAKer

    with tempfile.TemporaryDirectory() as folder:
        options = {"device": "cpu", "proj_dim": int(given["rank"]), "use_half_precision": False}
        made = TRAKer(model, "image_classification", len(x), save_dir=folder, logging_level=logging.ERROR, **options)
        weights = model.state_dict()
        made.load_checkpoint(weights, model_id=0)
        for rows in torch.arange(len(x)).split(100):
            made.featurize([x[rows], y[rows]], num_samples=len(rows))
        made.finalize_features()
        made.start_scoring_checkpoint("test", weights, model_id=0, num_targets=len(z))
        made.score([z, t], num_samples=len(z))
        return torch.from_numpy(np.array(made.finalize_scores("test"))).T


def main(inputs: str, outputs: str) -> None:
    warnings.simplefilter("ignore")  # of their own making
    given = np.load(inputs)
    torch.set_num_threads(int(given["threads"]))
    model = network(given)
    x, z = torch.from_numpy(given["x"]), torch.from_numpy(given["z"])
    y, t = torch.from_numpy(given["y"]).long(), torch.from_numpy(given["t"]).long()
    ask = {"pydvl": conjugate, "trak": projected}[str(given["peer"])]
    times = []
    for _ in range(int(given["repeats"])):
        began = CLOCK()
        scores = ask(model, x, y, z, t, given)
        times.append(CLOCK() - began)
    np.savez(outputs, seconds=min(times), scores=scores.detach().numpy())


if __name__ == "__main__":
    main(*sys.argv[1:])
