"""Run by benchmarks/kernels.py with the Python of neural-tangents: one task, its inputs and its result in files.

    python _peer_kernels.py TASK IMPLEMENTATION REPEATS GIBIBYTES INPUT.npz OUTPUT.npz

Prints the seconds of the first call, of the best later one, and CPU seconds of the best one. Uses no more memory
than told to.
"""

import resource
import sys
import time

import numpy as np


def main(task, implementation, repeats, gibibytes, source, target):
    limit = int(float(gibibytes) * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    import jax
    import neural_tangents as nt

    given = np.load(source)
    x = jax.numpy.asarray(given["x"])
    if task == "analytic":
        from neural_tangents import stax

        layers = [stax.Dense(512, W_std=2**0.5, b_std=0.0), stax.Relu()] * 3
        kernel = stax.serial(*layers, stax.Dense(1, W_std=2**0.5, b_std=0.0))[2]
        run = jax.jit(lambda x: kernel(x, None, "ntk"))
    else:
        params = [jax.numpy.asarray(given[name]) for name in given.files if name != "x"]
        options = {"trace_axes": (-1,), "vmap_axes": 0, "implementation": int(implementation)}
        kernel = nt.empirical_ntk_fn(NETWORKS[task], **options)
        run = jax.jit(lambda x: kernel(x, None, params))
    wall, cpu = [], []
    for _ in range(1 + int(repeats)):
        began, busy = time.perf_counter(), time.process_time()
        out = np.asarray(run(x))
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - busy)
    np.savez(target, out)
    print(wall[0], min(wall[1:]), min(cpu[1:]))


def dense(params, x):
    import jax

    for w, b in zip(params[0:-2:2], params[1:-2:2]):  # noqa: B905 (both are of one length)
        x = jax.nn.relu(x @ w + b)
    return x @ params[-2] + params[-1]


def convolutional(params, x):
    import jax

    for w, b in ((params[0], params[1]), (params[2], params[3])):
        x = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x + b)
    return x.reshape(x.shape[0], -1) @ params[4] + params[5]


NETWORKS = {"dense": dense, "convolutional": convolutional}

if __name__ == "__main__":
    main(*sys.argv[1:])
