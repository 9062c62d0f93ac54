"""What each operator computes, one file per family; importing them fills the table."""

from corollary.onnx._operators import (  # noqa: F401 - they enter themselves into the table
    attention,
    casting,
    comparison,
    control,
    convolution,
    detection,
    elementwise,
    indexing,
    ml,
    normalisation,
    pooling,
    products,
    quantised,
    recurrent,
    reductions,
    resize,
    sequences,
    shapes,
    signal,
)
