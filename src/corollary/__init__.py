"""What the theory of deep learning says about your network, with numbers.

The rooms (`corollary.linear`, `corollary.data`, ...) load when they are first touched, so that
`import corollary` costs nothing and the command line can answer before JAX is needed.
"""

import importlib as _importlib

__version__ = "0.1.0"

ROOMS = ("data", "foundations", "linear", "nets", "autodiff", "kernels", "optimization", "landscape")
_PARTS = (*ROOMS, "catalog", "claims", "evidence")


def __getattr__(name: str):
    if name in _PARTS:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_PARTS, "ROOMS", "__version__"])
