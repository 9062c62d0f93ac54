"""What torchattacks, foolbox and captum find on one small network, as a file that the tests read.

    python benchmarks/references.py tests/robustness/peers.npz

A network 64-32-10 is trained on the digits here and handed over as arrays; attacks begin at the images, without random
starts, so that nothing depends on a generator. The peers live in an environment of their own under benchmarks/.peers,
installed when first needed.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

import jax
import numpy as np
import optax
from _environment import environment

from corollary.data import digits
from corollary.nets import MLP, relu, train

COUNT = 64
STEPS = (
    ["torch==2.13.0"],
    ["--no-deps", "torchattacks==3.5.1"],
    ["foolbox==3.3.4", "captum==0.9.0", "torchvision==0.28.0"],
)


def main(out, steps):
    x, y = (np.asarray(a) for a in digits())
    x = x.reshape(-1, 64).astype(np.float32)
    run = train(
        MLP((64, 32, 10), relu, key=jax.random.key(0)), "cross_entropy", (x, y), optax.adam(0.01), steps=300,
        batch_size=64, key=jax.random.key(1),
    )  # fmt: skip
    arrays = [a for layer in run.network.layers for a in (layer.weight, layer.bias)]
    given = dict(zip(("w", "b", "v", "c"), map(np.asarray, arrays), strict=True))
    given |= dict(x=x[:COUNT], y=y[:COUNT].astype(np.int64), cube=0.1, ball=0.6, steps=steps)
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(files[0], **given)
        python = environment("references", *map(list, STEPS))
        subprocess.run([python, Path(__file__).parent / "_peer_references.py", *files], check=True)
        with np.load(files[1]) as found:
            np.savez_compressed(out, **given, **found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the file that is written")
    parser.add_argument("--steps", type=int, default=20, help="of the iterated attacks")
    main(**vars(parser.parse_args()))
