"""Audits of large networks: seconds, CPU seconds and the largest memory, section by section, and what they looked at.

python benchmarks/large_networks.py resnet50       # quick, with random weights and their start
python benchmarks/large_networks.py transformer    # quick, of GPT-2's size, with random weights and their start
python benchmarks/large_networks.py shakespeare    # in full, trained on Shakespeare: 384 wide, 6 blocks
python benchmarks/large_networks.py onnx           # `corollary audit` of a CNN with a million weights, 10,000 digits
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import optax

from corollary import Network, Subject
from corollary.audit import audit
from corollary.data import mnist
from corollary.data import shakespeare as plays
from corollary.nets import fit
from corollary.nets.attention import LanguageModel
from corollary.nets.convolutional import ResNet

TRAIN, TEST = 64, 32
LENGTH, WORDS = 128, 50257


def resnet50(key):
    model = ResNet(3, 1000, key=key, kind="bottleneck")
    params, static = eqx.partition(model, eqx.is_inexact_array)

    def outputs(params, state, x, training):
        return eqx.combine(params, static).batch(x, state, training=training)[0]

    return Network(
        lambda params, state, x: outputs(params, state, x, False),
        params,
        model.state(),
        batched=True,
        recomputed=lambda params, state, x: outputs(params, state, x, True),
    )


def transformer(key):
    return LanguageModel(WORDS, LENGTH, 768, 12, 12, key=key)


def random(make, train, test):
    """A network with random weights, and the start that it never had."""
    first, second = jax.random.split(jax.random.key(0))
    return Subject(make(first), "cross_entropy", train, test, initial=make(second), learning_rate=0.1, batch_size=256)


def of_pictures():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(TRAIN + TEST, 3, 224, 224)).astype(np.float32), rng.integers(0, 1000, TRAIN + TEST)
    return random(resnet50, (x[:TRAIN], y[:TRAIN]), (x[TRAIN:], y[TRAIN:]))


def of_words():
    words = np.random.default_rng(0).integers(0, WORDS, (TRAIN + TEST, LENGTH + 1))
    x, y = words[:, :-1], words[:, 1:]
    return random(transformer, (x[:TRAIN], y[:TRAIN]), (x[TRAIN:], y[TRAIN:]))


def of_shakespeare(length=256, steps=1000, batch=64, rate=1e-3):
    """A model of the letters of Shakespeare, trained with Adam; a tenth of the windows are for the test."""
    text = plays()
    letters = sorted(set(text))
    tokens = np.searchsorted(letters, list(text)).astype(np.int32)
    windows = tokens[: len(tokens) // (length + 1) * (length + 1)].reshape(-1, length + 1)
    (x, y), held = (windows[:, :-1], windows[:, 1:]), len(windows) // 10
    model = LanguageModel(len(letters), length, 384, 6, 6, unroll=6, key=jax.random.key(0))
    train, test = (x[:-held], y[:-held]), (x[-held:], y[-held:])
    known = dict(optimiser=optax.adam(rate), learning_rate=rate, batch_size=batch, steps=steps)
    run = fit(
        model, "cross_entropy", train, optax.adam(rate), steps=steps, batch_size=batch, key=jax.random.key(1),
        progress=False,
    )  # fmt: skip
    return Subject(run.network, "cross_entropy", train, test, initial=model, **known)


def reader(params, x):
    """Two convolutions of 3 by 3 with pooling, and two affine layers, on a batch of digits."""
    (w, b), (v, c), (u, d), (t, e) = params
    for kernel, bias in ((w, b), (v, c)):
        x = jax.lax.conv(x, kernel, (1, 1), "SAME") + bias[:, None, None]
        x = jax.nn.relu(x).reshape(*x.shape[:2], x.shape[2] // 2, 2, x.shape[3] // 2, 2).max((3, 5))
    return jax.nn.relu(x.reshape(len(x), -1) @ u + d) @ t + e


def as_onnx(params, path: Path):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    given = [
        numpy_helper.from_array(np.asarray(a), name)
        for a, name in zip(jax.tree.leaves(params), "wbvcudte", strict=True)
    ]
    node, nodes = helper.make_node, []
    for i, (x, w, b) in enumerate((("x", "w", "b"), ("pooled0", "v", "c"))):
        nodes.append(node("Conv", [x, w, b], [f"convolved{i}"], pads=[1, 1, 1, 1]))
        nodes.append(node("Relu", [f"convolved{i}"], [f"positive{i}"]))
        nodes.append(node("MaxPool", [f"positive{i}"], [f"pooled{i}"], kernel_shape=[2, 2], strides=[2, 2]))
    nodes.append(node("Flatten", ["pooled1"], ["flat"]))
    nodes.append(node("Gemm", ["flat", "u", "d"], ["affine"]))
    nodes.append(node("Relu", ["affine"], ["hidden"]))
    nodes.append(node("Gemm", ["hidden", "t", "e"], ["logits"]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 28, 28])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 10])
    graph = helper.make_graph(nodes, "reader", [x], [logits], given)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def from_the_command_line(images=10_000, steps=600, batch=64, rate=0.1):
    """`corollary audit` of a trained CNN with a million weights, as a user calls it; time and memory of all of it."""
    sets = [(a[:images, None].astype(np.float32) / 255, b[:images]) for a, b in (mnist("train"), mnist("test"))]
    shapes = (32, 1, 3, 3), (64, 32, 3, 3), (64 * 7 * 7, 320), (320, 10)
    rng = np.random.default_rng(0)
    start = []
    for shape in shapes:
        fan_in = np.prod(shape[1:]) if len(shape) == 4 else shape[0]
        w = rng.normal(size=shape, scale=np.sqrt(2 / fan_in)).astype(np.float32)
        start.append([w, np.zeros(shape[0 if len(shape) == 4 else 1], np.float32)])
    run = fit(
        Network(reader, start, batched=True), "cross_entropy", sets[0], optax.sgd(rate), steps=steps,
        batch_size=batch, key=jax.random.key(1), progress=False,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        as_onnx(run.network.params, here / "trained.onnx")
        as_onnx(start, here / "start.onnx")
        for name, (x, y) in zip(("train", "test"), sets, strict=True):
            np.savez(here / f"{name}.npz", x=x, y=y)
        known = ["--learning-rate", str(rate), "--batch-size", str(batch), "--steps", str(steps)]
        given = [
            "trained.onnx",
            "--train",
            "train.npz",
            "--test",
            "test.npz",
            "--initial",
            "start.onnx",
            "--loss",
            "cross_entropy",
            *known,
        ]
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "corollary", "audit", *given], cwd=here, check=True)
        size = (here / "report.html").stat().st_size / 2**20
        print(f"{time.perf_counter() - began:.0f} s, a report of {size:.1f} MiB", end="; ")
    # the audit's own process is a child of the one that was started, and has been waited for
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} s of CPU, at most {used.ru_maxrss / 2**20:.1f} GiB")


#: how each subject is made, and its budget
SUBJECTS = {
    "resnet50": (of_pictures, "quick"),
    "transformer": (of_words, "quick"),
    "shakespeare": (of_shakespeare, "full"),
}


def main(kind):
    if kind == "onnx":
        return from_the_command_line()
    make, budget = SUBJECTS[kind]
    subject = make()
    began, seen = time.perf_counter(), ["Reading the network"]

    def progress(title):
        used = resource.getrusage(resource.RUSAGE_SELF)
        spent = f"{time.perf_counter() - began:6.0f} s, {used.ru_utime + used.ru_stime:6.0f} s of CPU"
        print(f"{spent}, at most {used.ru_maxrss / 2**20:.1f} GiB after: {seen[-1]}", flush=True)
        seen.append(title)

    report = audit(subject, budget=budget, progress=progress)
    progress("")
    print(subject, *subject.notes, sep="\n")
    for finding in report.findings:
        print(f"{finding.name}: {finding.number}; {'; '.join(p.measured for p in finding.premises)}")
    for section in report.sections:
        print(section.title, section.failed or f"{section.seconds:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "resnet50")
