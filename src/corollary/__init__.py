"""What the theory of deep learning says about your network, with numbers.

The rooms (`corollary.linear`, `corollary.data`, ...) load when they are first touched, so that
`import corollary` costs nothing and the command line can answer before JAX is needed.
"""

import importlib as _importlib

__version__ = "0.1.0"

ROOMS = ("data", "foundations", "linear", "nets", "autodiff", "kernels", "optimization", "landscape", "language")
_PARTS = (*ROOMS, "network", "catalog", "claims", "evidence", "audit")
_NAMES = {
    "Network": "network",
    "BatchLoss": "network",
    "Subject": "audit",
    "SubjectError": "audit",
}  # what is at hand without the name of its part


def __getattr__(name: str):
    if name in _PARTS:
        return _importlib.import_module(f"{__name__}.{name}")
    if name in _NAMES:
        return getattr(_importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_PARTS, *_NAMES, "ROOMS", "__version__"])
