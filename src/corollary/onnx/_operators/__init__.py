"""What each operator computes, one file per family; importing them fills the table."""

from corollary.onnx._operators import (
    casting,
    comparison,
    control,
    elementwise,
    indexing,
    ml,
    products,
    quantised,
    reductions,
    sequences,
    shapes,
)

FAMILIES = (
    casting,
    comparison,
    control,
    elementwise,
    indexing,
    ml,
    products,
    quantised,
    reductions,
    sequences,
    shapes,
)
