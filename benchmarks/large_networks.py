"""The quick audit of networks with random weights and their start: a ResNet50, and a transformer of GPT-2's size.

`python benchmarks/large_networks.py resnet50 | transformer`: seconds, CPU seconds and the largest memory, section by
section, and what each finding looked at.
"""

import resource
import sys
import time

import equinox as eqx
import jax
import numpy as np

from corollary import Network, Subject
from corollary.audit import audit
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


def data(kind):
    rng = np.random.default_rng(0)
    if kind == "resnet50":
        x, y = rng.normal(size=(TRAIN + TEST, 3, 224, 224)).astype(np.float32), rng.integers(0, 1000, TRAIN + TEST)
    else:
        words = rng.integers(0, WORDS, (TRAIN + TEST, LENGTH + 1))
        x, y = words[:, :-1], words[:, 1:]
    return (x[:TRAIN], y[:TRAIN]), (x[TRAIN:], y[TRAIN:])


def main(kind):
    make = {"resnet50": resnet50, "transformer": transformer}[kind]
    began, seen = time.perf_counter(), ["Reading the network"]

    def progress(title):
        used = resource.getrusage(resource.RUSAGE_SELF)
        spent = f"{time.perf_counter() - began:6.0f} s, {used.ru_utime + used.ru_stime:6.0f} s of CPU"
        print(f"{spent}, at most {used.ru_maxrss / 2**20:.1f} GiB after: {seen[-1]}", flush=True)
        seen.append(title)

    first, second = jax.random.split(jax.random.key(0))
    known = {"initial": make(second), "learning_rate": 0.1, "batch_size": 256}
    subject = Subject(make(first), "cross_entropy", *data(kind), **known)
    report = audit(subject, progress=progress)
    progress("")
    print(subject, *subject.notes, sep="\n")
    for finding in report.findings:
        print(f"{finding.name}: {finding.number}; {'; '.join(p.measured for p in finding.premises)}")
    for section in report.sections:
        print(section.title, section.failed or f"{section.seconds:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "resnet50")
