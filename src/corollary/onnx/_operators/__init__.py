"""What each operator computes, one file per family; importing them fills the table."""

from corollary.onnx._operators import (
    attention,  # noqa: F401
    convolution,  # noqa: F401
    detection,  # noqa: F401
    elementwise,  # noqa: F401
    normalisation,  # noqa: F401
    pooling,  # noqa: F401
    recurrent,  # noqa: F401
    resize,  # noqa: F401
    signal,  # noqa: F401
)
