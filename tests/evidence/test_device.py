"""The kind of device is known without waking the device, and before JAX is imported."""

import os
import subprocess
import sys

import jax
import pytest

from corollary.evidence import _device
from corollary.evidence._device import device_kind


@pytest.fixture(autouse=True)
def _ask_again():
    device_kind.cache_clear()
    yield
    device_kind.cache_clear()


def test_it_is_what_jax_takes():
    assert device_kind() == jax.default_backend()


@pytest.mark.parametrize(("named", "kind"), [("cpu", "cpu"), ("cuda", "gpu"), ("rocm,cpu", "gpu"), ("tpu", "tpu")])
def test_what_the_user_chose(named, kind):
    code = "import sys\nfrom corollary.evidence._device import device_kind\nprint(device_kind(), 'jax' in sys.modules)"
    environment = os.environ | {"JAX_PLATFORMS": named}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.split() == [kind, "False"]


def test_another_process_is_asked_where_there_may_be_an_accelerator(monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "")
    asked = []

    def run(words, **options):
        asked.append(words)
        return subprocess.CompletedProcess(words, 0, stdout="gpu\n")

    monkeypatch.setattr(_device.subprocess, "run", run)
    monkeypatch.setattr(_device, "entry_points", lambda group: [])
    monkeypatch.setattr(_device, "find_spec", lambda name: None)
    assert device_kind() == "cpu"
    assert not asked
    device_kind.cache_clear()
    monkeypatch.setattr(_device, "entry_points", lambda group: ["a plugin"])
    assert device_kind() == "gpu"
    assert len(asked) == 1
