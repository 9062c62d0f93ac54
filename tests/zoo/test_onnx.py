"""ONNX files that packages ship: the same numbers as onnxruntime, and a whole audit of each.

`make zoo` prints one line of the table in docs/results.md per file.
"""

import sys
import time
from pathlib import Path

import jax
import numpy as np
import onnx
import onnxruntime
import pytest

from corollary import Network
from corollary.audit import Subject, audit
from corollary.onnx import run

sys.path.insert(0, str(Path(__file__).parent))
from onnx_files import FILES, found

pytestmark = [pytest.mark.zoo, pytest.mark.timeout(1800)]


@pytest.fixture(params=FILES, ids=lambda file: file.path)
def file(request):
    package = request.param.path.partition("/")[0]
    if found(request.param.path) is None:
        pytest.skip(f"{package} is not installed: pip install 'corollary[zoo]'")
    return request.param


def test_the_numbers_are_those_of_onnxruntime(file, capsys):
    path, inputs = found(file.path), file.inputs()
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    constants = {name: inputs[name] for name in file.constants}
    varying = {name: inputs[name] for name in inputs if name not in constants}
    found_here = jax.jit(lambda given: run(path, {**given, **constants}))(varying)
    apart = []
    for ours, theirs in zip(found_here, session.run(None, inputs), strict=True):
        assert ours.shape == theirs.shape
        apart.append(np.abs(np.asarray(ours, float) - theirs).max() / np.abs(theirs).max())
    versions = {each.domain: each.version for each in onnx.load(path).opset_import}
    with capsys.disabled():
        print(f"\n| {file.path} | version {versions['']} | {max(apart):.0e} |")
    assert max(apart) <= 1e-4


def test_the_whole_audit(file, capsys):
    inputs = file.inputs()
    rows = {name: np.moveaxis(a, 1, 0) if name in file.second else a for name, a in inputs.items()}
    constants = {name: rows.pop(name) for name in file.constants}
    example = {name: a[0] for name, a in rows.items()} | constants
    single = len(example) == 1
    began = time.perf_counter()
    network = Network.from_onnx(
        found(file.path), next(iter(example.values())) if single else example, output=file.output
    )
    converted = time.perf_counter() - began
    x = next(iter(rows.values())) if single else rows
    subject = Subject(network, file.loss, (x, targets(file, jax.vmap(network)(x))))
    report = audit(subject)
    failed = {section.title: section.failed for section in report.sections if section.failed}
    findings = sum(len(section.findings) for section in report.sections)
    with capsys.disabled():
        print(f"\n| {file.path} | {subject.size:,} | {converted:.0f} s | {findings} | {report.seconds:.0f} s |")
    assert not failed
    assert findings >= 10


def targets(file, outputs):
    """True labels where there are some; otherwise made up, so that there is something to be wrong about."""
    if file.labels is not None:
        return np.array(file.labels())
    rng = np.random.default_rng(1)
    if file.loss == "cross_entropy":
        return rng.integers(0, outputs.shape[-1], outputs.shape[:-1])
    return rng.integers(0, 2, outputs.shape).astype(np.float32)
