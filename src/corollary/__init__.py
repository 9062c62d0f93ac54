"""What the theory of deep learning says about your network, with numbers.

The rooms (`corollary.linear`, `corollary.data`, ...) and the names in them load when they are first touched, so that
`import corollary` costs nothing and the command line can answer before JAX is needed. What a package offers is written
once, in its `__init__.pyi`.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
__all__ += ["ROOMS", "__version__"]

__version__ = "0.1.0"

#: a room may import those before it
ROOMS = (
    "data",
    "foundations",
    "optimization",
    "linear",
    "memory",
    "autodiff",
    "nets",
    "kernels",
    "landscape",
    "dynamics",
    "differential",
    "reinforcement",
    "generalization",
    "robustness",
    "attribution",
    "language",
    "generative",
)
