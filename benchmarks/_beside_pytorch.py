"""What the benchmarks beside PyTorch share: its process, the clock, the device's rate, the lines that are printed."""

import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from _environment import environment


def python() -> Path | str:
    """A Python with torch: this one, or an environment of its own."""
    here = importlib.util.find_spec("torch") is not None
    return sys.executable if here else environment("torch", ["torch==2.13.0"], ["numpy"])


def peer(script: str, **given) -> dict:
    """Hand arrays to a script of this folder that runs PyTorch, and get arrays back."""
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(files[0], **given)
        subprocess.run([python(), Path(__file__).parent / script, *files], check=True)
        return dict(np.load(files[1]))


def timed(function, repeats):
    """First call, and the best of the later ones."""
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        jax.block_until_ready(function())
        times.append(time.perf_counter() - began)
    return times[0], min(times[1:])


def matrix_rate(dtype, side, repeats=20):
    """Operations a second of products of square matrices, one after the other."""
    a = jax.random.normal(jax.random.key(0), (side, side)).astype(dtype)
    chain = jax.jit(lambda a: jax.lax.fori_loop(0, repeats, lambda _, b: (a @ b) * side**-0.5, a))
    return repeats * 2 * side**3 / timed(lambda: chain(a), 3)[1]


def compare(title, unit, count, operations, ours, theirs, bar):
    """Print both rates, their ratio and shares of the device's; end with status 0 if the ratio reaches `bar`.

    `count` units take `operations` each; `ours` is (loss of one batch, first call, best), `theirs` what the peer wrote.
    """
    loss, first, seconds = ours
    best, gpu = float(theirs["seconds"].min()), jax.default_backend() != "cpu"
    precision, side = ("bfloat16", 8192) if gpu else ("float32", 1024)
    rate, work = matrix_rate(jnp.dtype(precision), side), operations * count
    print(f"{jax.devices()[0].device_kind}: {title}, {precision}")
    print(f"loss of one batch, single precision: ours {loss:.6f}, PyTorch {float(theirs['loss']):.6f}")
    print(f"corollary             {count / seconds:12,.0f} {unit}/s  (first stretch, compiling, {first:.1f} s)")
    print(f"PyTorch {theirs['version']!s:13} {count / best:12,.0f} {unit}/s  (first steps {theirs['compiling']:.1f} s)")
    print(f"ratio {best / seconds:.3f}")
    print(f"{work / seconds / 1e12:.2f} TFLOP/s of {rate / 1e12:.1f} measured in matrix products: ", end="")
    print(f"{work / seconds / rate:.3f}; PyTorch {work / best / rate:.3f}")
    if abs(loss - float(theirs["loss"])) > 1e-3:
        raise SystemExit("The two sides do not compute the same.")
    raise SystemExit(0 if best / seconds >= bar else f"The ratio is below {bar:g}.")
