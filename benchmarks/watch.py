"""What a watch sees, when, and what it takes: false alarms on healthy trainings, delays on sick ones, share, memory.

    python benchmarks/watch.py                          # all but the healthy ones: minutes on two cores
    python benchmarks/watch.py healthy --runs 300 --processes 16
    python benchmarks/watch.py step batch units overfitting --runs 10
    python benchmarks/watch.py share memory
    TINY=1 python benchmarks/watch.py step batch units overfitting    # small networks, every look can be paid for

MNIST, networks 784-384-384-10 and 784-512-512-10, loops with Optax. Healthy trainings are drawn over widths, batches,
optimisers, steps and schedules, and end before the held-out loss rises. Sick ones are such trainings in which
one thing goes wrong at a random step: the learning rate is raised thirtyfold; one batch comes again and again (in half
of them from the first step); a term pushes the biases of the hidden units down; 400 examples with 20 % of the labels
wrong are fitted. What is seen is set against what happened: the step of the change, dead units counted at every step
on 1,000 examples, the loss on 5,000 examples that nobody else uses.
"""

import argparse
import functools
import multiprocessing
import os
import resource
import time
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.stats import beta

from corollary import landscape, nets
from corollary.audit import Subject, _spending, watch
from corollary.data import mnist

STEPS = 600


class Paced:
    """With TINY=1: a clock by which every step takes a second and a look nothing, so that all looks can be paid for."""

    time = 0.0

    def __call__(self):
        return self.time


PACED = Paced() if os.environ.get("TINY") else None
if PACED is not None:
    _spending.WALL, _spending.Working = PACED, lambda: PACED
OPTIMISERS = {
    "sgd": (optax.identity, (0.05, 0.15)),
    "momentum": (functools.partial(optax.trace, decay=0.9), (0.01, 0.03)),
    "adam": (optax.scale_by_adam, (5e-4, 2e-3)),
}
SCHEDULES = ("constant", "cosine", "one cycle", "halved")


@functools.cache
def digits():
    (x, y), (new, answers) = mnist("train"), mnist("test")
    flat = [np.asarray(a, np.float32).reshape(len(a), -1) / 255 for a in (x[:12000], new)]
    return (flat[0], np.asarray(y[:12000])), (flat[1], np.asarray(answers))


def schedule(name, step):
    at = step / STEPS
    if name == "cosine":
        return 0.5 * (1 + np.cos(np.pi * at))
    if name == "one cycle":
        return 0.04 + 0.96 * (at / 0.3 if at < 0.3 else max(0.0, (1 - at) / 0.7))
    return 0.5 ** int(at * 4) if name == "halved" else 1.0


@functools.cache
def updater(kind):
    method = OPTIMISERS[kind][0]()

    @eqx.filter_jit
    def update(network, memory, x, y, rate, push):
        def loss(network):
            return optax.softmax_cross_entropy_with_integer_labels(jax.vmap(network)(x), y).mean()

        value, slope = eqx.filter_value_and_grad(loss)(network)
        moves, memory = method.update(slope, memory, network)
        moves = jax.tree.map(lambda a: -rate * a, moves)
        network = eqx.apply_updates(network, moves)
        where = lambda n: [layer.bias for layer in n.layers[:-1]]  # noqa: E731
        return eqx.tree_at(where, network, [b - push for b in where(network)]), memory, value

    return method, update


def recipe(seed):
    rng = np.random.default_rng(seed)
    kind = ("sgd", "momentum", "adam")[seed % 3]
    low, high = OPTIMISERS[kind][1]
    return rng, {
        "kind": kind,
        "rate": float(np.exp(rng.uniform(np.log(low), np.log(high)))),
        "batch": (128, 256)[rng.integers(2)],
        "width": 64 if PACED is not None else (384, 512)[rng.integers(2)],
        "schedule": SCHEDULES[rng.integers(4)],
    }


def training(seed, *, share, disease=None, examples=8000, steps=STEPS, each=None):
    """One training; its alarms, the step of the change, and what `each(step, network, watching)` recorded."""
    rng, chosen = recipe(seed)
    (x, y), (new, answers) = digits()
    rows = rng.permutation(12000)[:examples]
    x, y = x[rows], y[rows].copy()
    if disease == "overfitting":
        chosen |= {"batch": 128, "schedule": "constant"}
        wrong = rng.random(examples) < 0.2
        y[wrong] = rng.integers(10, size=int(wrong.sum()))
    network = nets.MLP((784, chosen["width"], chosen["width"], 10), nets.relu, key=jax.random.key(seed))
    method, update = updater(chosen["kind"])
    memory, size = method.init(eqx.filter(network, eqx.is_array)), chosen["batch"]
    held = rng.permutation(5000)[:1000]
    subject = Subject(network, "cross_entropy", (x, y), (new[held], answers[held]), batch_size=size)
    watching = watch(subject, share, report=None)
    change = int(rng.integers(300, 500)) if disease in ("step", "units") else 0
    if disease == "batch" and seed % 2:
        change = int(rng.integers(250, 500))
    recorded, order, at, batch = [], rng.permutation(examples), 0, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(steps):
            if at + size > examples:
                order, at = rng.permutation(examples), 0
            if not (disease == "batch" and step > change):
                batch = order[at : at + size]
                at += size
            sick = disease is not None and step >= change
            rate = chosen["rate"] * schedule(chosen["schedule"], step) * (30 if sick and disease == "step" else 1)
            push = 0.01 if sick and disease == "units" else 0.0
            network, memory, loss = update(network, memory, x[batch], y[batch], jnp.float32(rate), jnp.float32(push))
            if PACED is not None:
                PACED.time += 1.0
            watching(step, network, loss)
            if each is not None:
                recorded.append(each(step, network, watching))
            seen = any(a.name == disease for a in watching.alarms)
            if sick and disease != "overfitting" and (seen or (step > change + 60 and disease != "units")):
                break
    return watching, change, recorded, chosen


def healthy(seed, share):
    watching, _, _, chosen = training(seed, share=share)
    said = [a.sentence for a in watching.alarms]
    return not said, f"{chosen} {said}" if said else "", watching


def named(seed, share, disease, within):
    watching, change, _, chosen = training(seed, share=share, disease=disease)
    first = next((a for a in watching.alarms if a.name == disease), None)
    good = first is not None and change <= first.step <= change + within
    said = [a.sentence for a in watching.alarms]
    return good, f"{chosen}: changed at {change}; {said}; {watching!r}", watching


@eqx.filter_jit
def dead_shares(network, x, y):
    layers = landscape.layer_signals(network, "cross_entropy", (x, y), batch_size=1000)
    return jnp.stack([layer.dead for layer in layers if layer.dead is not None]).max()


def units(seed, share):
    x, y = (a[9000:10000] for a in digits()[0])

    def each(step, network, watching):
        return float(dead_shares(network, x, y))

    watching, change, shares, chosen = training(seed, share=share, disease="units", each=each, steps=1500)
    # the push is a part of every step, which becomes longer at once where steps are short: that may be said too
    first = next((a for a in watching.alarms if a.name == "units"), None)
    half = next((i for i, s in enumerate(shares) if s >= 0.5), None)
    good = first is not None and first.step >= change and half is None
    return good, f"{chosen['kind']}: pushed from {change}, half dead at {half}; {first and first.sentence}", watching


@eqx.filter_jit
def mean_loss(network, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(jax.vmap(network)(x), y).mean()


def overfitting(seed, share):
    x, y = (a[5000:] for a in digits()[1])
    looked, seen = [], None  # the network at each look at held-out data

    def each(step, network, watching):
        nonlocal seen
        if watching.taken["held"] > len(looked):
            looked.append(network)
        if seen is None and any(a.name == "overfitting" for a in watching.alarms):
            seen = len(looked)

    watching, _, _, chosen = training(seed, share=share, disease="overfitting", examples=400, steps=1500, each=each)
    # after the training: what is computed between its steps would be taken for what a look costs the step after it
    values = np.array([float(mean_loss(network, x, y)) for network in looked])
    risen = np.flatnonzero(values > 1.1 * np.minimum.accumulate(values)) + 1
    start = int(risen[0]) if len(risen) else None
    others = [a.name for a in watching.alarms if a.name != "overfitting"]
    good = seen is not None and (start is None or seen <= start + 2) and not others
    said = f"{chosen['kind']}: began at look {start}, seen at {seen} of {len(looked)}; others {others}"
    return good, said, watching


RUNS = {
    "healthy": healthy,
    "step": functools.partial(named, disease="step", within=20),
    "batch": functools.partial(named, disease="batch", within=50),
    "units": units,
    "overfitting": overfitting,
}


def one(arguments):
    name, seed, share = arguments
    good, said, watching = RUNS[name](seed, share)
    return good, said, watching.share_spent, watching.taken


def exact(k, n):
    low = 0.0 if k == 0 else beta.ppf(0.025, k, n - k + 1)
    return low, 1.0 if k == n else beta.ppf(0.975, k + 1, n - k)


def many(name, first, runs, share, processes):
    began = time.perf_counter()
    work = [(name, seed, share) for seed in range(first, first + runs)]
    if processes > 1:
        # a core for each: many threads in each of many processes wait for one another
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            found = []
            for result in pool.imap(one, work, chunksize=max(1, runs // (8 * processes))):
                found.append(result)
                if len(found) % 50 == 0:
                    print(f"  {len(found)} of {runs}, {time.perf_counter() - began:.0f} s", flush=True)
    else:
        found = [one(each) for each in work]
    bad = [f"    seed {i}: {said}" for i, (good, said, _, _) in enumerate(found, first) if not good]
    k = runs - len(bad)
    low, high = exact(runs - k, runs) if name == "healthy" else exact(k, runs)
    word = "warned" if name == "healthy" else "named in time"
    print(f"{name}: {runs - k if name == 'healthy' else k} of {runs} {word} [{low:.3f}, {high:.3f}]", end="; ")
    spent = [s for _, _, s, _ in found]
    looks = {kind: round(float(np.median([t[kind] for _, _, _, t in found]))) for kind in found[0][3]}
    print(f"share spent {100 * np.mean(spent):.1f} % (median looks {looks}), {time.perf_counter() - began:.0f} s")
    print("\n".join(bad[:12]), flush=True)


def alternately(name, steps, pairs, prepared, run, same):
    """Trainings without and with a watch in turn, in either order: what one takes beside the other, and their bits."""
    run(None)  # compiled and warm
    seconds, bits, spent = np.zeros((pairs, 2, 2)), True, []
    for i in range(pairs):
        ends, watching = {}, prepared()
        for watched in (i % 2, 1 - i % 2):
            wall, cpu = time.perf_counter(), time.process_time()
            ends[watched] = run(watching if watched else None)
            seconds[i, watched] = time.process_time() - cpu, time.perf_counter() - wall
        bits = bits and same(ends[0], ends[1])
        spent.append(100 * watching.share_spent)
        cpu, wall = 100 * (seconds[i, 1] / seconds[i, 0] - 1)
        said = [a.sentence for a in watching.alarms] or ""
        print(
            f"  by its own clock {spent[-1]:.2f} %; CPU time {cpu:+.1f} %, wall {wall:+.1f} %; {watching!r} {said}",
            flush=True,
        )
    more = 100 * (seconds[:, 1] / seconds[:, 0] - 1)
    cpu, wall = (f"{a:+.2f} ± {b:.2f} %" for a, b in zip(more.mean(0), more.std(0) / (pairs - 1) ** 0.5, strict=True))
    each, all_of_it = 1e3 * seconds[:, 0, 0].mean() / steps, seconds[:, 0, 1].mean()
    print(f"{name}: {each:.0f} ms CPU a step; same bits {bits}; by its own clock {np.mean(spent):.2f} %;", end=" ")
    print(f"CPU time {cpu}, wall {wall} of {all_of_it:.1f} s (means of {pairs} pairs, standard errors)", flush=True)


def share_kept(share, pairs, steps=600):
    """`nets.fit` with and without, in CPU time and on the wall, and their last bits."""
    from corollary.nets.convolutional import ConvolutionalNetwork, Stage

    (x, y), (new, answers) = mnist("train"), mnist("test")
    x, y = jnp.asarray(x[:20000])[:, None] / 255, jnp.asarray(y[:20000])
    stages = (Stage(16, 5, padding=2, pool=2), Stage(32, 5, padding=2, pool=2))
    network = ConvolutionalNetwork((1, 28, 28), outputs=10, key=jax.random.key(0), stages=stages, hidden=(128,))
    test = jnp.asarray(new[:1000])[:, None] / 255, jnp.asarray(answers[:1000])
    subject = Subject(network, "cross_entropy", (x, y), test, batch_size=100)
    rate = optax.adamw(optax.cosine_onecycle_schedule(steps, 3e-3), weight_decay=1e-4)

    def run(watched):
        options = dict(steps=steps, batch_size=100, key=jax.random.key(1), progress=False)
        return nets.fit(network, "cross_entropy", (x, y), rate, watch=watched, **options)

    def same(plain, watched):
        leaves = [jax.tree.leaves(eqx.filter(t.network, eqx.is_array)) for t in (plain, watched)]
        return all(np.array_equal(a, b) for a, b in zip(*leaves, strict=True))

    alternately("mnist_cnn", steps, pairs, lambda: watch(subject, share, report="watch.html"), run, same)


def share_torch(share, pairs, steps=200, batch=128):
    """The same for a loop in PyTorch."""
    import torch

    from corollary.torch import Watch

    (x, y), (new, answers) = mnist("train"), mnist("test")
    x, y = torch.tensor(np.asarray(x[:20000], np.float32)[:, None] / 255), torch.tensor(np.asarray(y[:20000], int))
    test = np.asarray(new[:1000], np.float32)[:, None] / 255, np.asarray(answers[:1000])
    data = (x[:4000].numpy(), y[:4000].numpy()), test

    def module():
        torch.manual_seed(0)
        convolutions = [torch.nn.Conv2d(a, b, 5, padding=2) for a, b in ((1, 16), (16, 32))]
        layers = [layer for c in convolutions for layer in (c, torch.nn.ReLU(), torch.nn.MaxPool2d(2))]
        return torch.nn.Sequential(
            *layers, torch.nn.Flatten(), torch.nn.Linear(1568, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
        )

    def prepared():
        return Watch(module(), "cross_entropy", *data, share, batch_size=batch, report="watch.html")

    def run(watching):
        model = module() if watching is None else watching.module
        optimiser = torch.optim.Adam(model.parameters(), 1e-3)
        torch.manual_seed(1)
        for step in range(steps):
            rows = torch.randint(0, len(x), (batch,))
            loss = torch.nn.functional.cross_entropy(model(x[rows]), y[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            if watching is not None:
                watching(step, loss)
        return model

    def same(plain, watched):
        return all(torch.equal(a, b) for a, b in zip(plain.parameters(), watched.parameters(), strict=True))

    alternately("PyTorch", steps, pairs, prepared, run, same)


def memory(steps=100_000):
    """A hundred thousand calls: what the process holds, and how large the page is."""
    network = nets.MLP((8, 16, 2), nets.tanh, key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (256, 8))
    y = (x[:, 0] > 0).astype(int)
    watching = watch(Subject(network, "cross_entropy", (x, y), (x, y), batch_size=32), 0.3, report="watch.html")
    noise = np.abs(np.random.default_rng(0).normal(1, 0.1, steps))
    held = []
    for step in range(steps):
        watching(step, network, noise[step])
        if step % (steps // 10) == steps // 20:
            held.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    watching.save()
    sizes = os.path.getsize("watch.html")
    print(
        f"memory: MiB at most so far {[round(h) for h in held]}, page {sizes / 1024:.0f} KiB; {watching!r}", flush=True
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [*RUNS, "share", "memory"]
    parser.add_argument("what", nargs="*", default=["step", "batch", "units", "overfitting", "share", "memory"])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=4, help="trainings without and with a watch, for the share")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--processes", type=int, default=1)
    args = parser.parse_args()
    for name in args.what:
        if name == "share":
            share_kept(args.share, args.pairs)
            share_torch(args.share, args.pairs)
        elif name == "memory":
            memory()
        elif name in names:
            many(name, args.first, args.runs, args.share, args.processes)
        else:
            parser.error(f"what must be of {', '.join(names)}, got {name!r}")
