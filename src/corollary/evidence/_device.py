"""The kind of device that claims run on, asked for without waking it where possible."""

import os
import subprocess
import sys
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec

_KINDS = {"cuda": "gpu", "rocm": "gpu"}
_ASK = "import jax; print(jax.default_backend())"


@cache
def device_kind() -> str:
    """`cpu`, `gpu` or `tpu`: what JAX takes by default in a new process.

    The process that deals tasks needs no device, and JAX would reserve most of an accelerator's memory for it if it
    asked. Where there may be one, another process is sent to ask.
    """
    named = os.environ.get("JAX_PLATFORMS", "").split(",")[0].strip()
    if named:
        return _KINDS.get(named, named)
    if not entry_points(group="jax_plugins") and find_spec("jax_plugins") is None and find_spec("libtpu") is None:
        return "cpu"
    asked = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "cpu"
