"""What each operator computes, one file per family; importing them fills the table."""

from corollary.onnx._operators import (
    elementwise,  # noqa: F401
)
