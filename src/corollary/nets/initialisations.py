r"""Initialisations of weights that the texts analyse, as functions `(key, shape, dtype)` with shape (fan-out, fan-in).

The form is that of `jax.nn.initializers`, whose own initialisations are used where they exist; a layer of this room
takes any function of this form. Its bias is drawn like one column of its weight, by an initialisation of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from jax.nn import initializers

from corollary._types import Scalar
from corollary._validate import positive

# jax.nn.initializers takes weights as (fan-in, fan-out) by default; here a weight multiplies from the left.
_AXES = {"in_axis": -1, "out_axis": -2}

#: uniform on $(-1/\sqrt{\text{fan-in}},\,1/\sqrt{\text{fan-in}})$, of variance $\frac1{3\,\text{fan-in}}$
uniform_fan_in = initializers.variance_scaling(1 / 3, "fan_in", "uniform", **_AXES)

#: Xavier or Glorot: variance $2/(\text{fan-in}+\text{fan-out})$
glorot_normal = initializers.variance_scaling(1.0, "fan_avg", "normal", **_AXES)
glorot_uniform = initializers.variance_scaling(1.0, "fan_avg", "uniform", **_AXES)

#: He: variance $2/\text{fan-in}$, which keeps the mean square of a ReLU network from layer to layer
he_normal = initializers.variance_scaling(2.0, "fan_in", "normal", **_AXES)
he_uniform = initializers.variance_scaling(2.0, "fan_in", "uniform", **_AXES)

#: LeCun: variance $1/\text{fan-in}$, which keeps the mean square of a linear network
lecun_normal = initializers.variance_scaling(1.0, "fan_in", "normal", **_AXES)

#: variance 1; with `scaling="ntk"`, which divides by $\sqrt{\text{fan-in}}$ in the layer itself, the NTK scaling
standard_normal = initializers.normal(1.0)

zeros = initializers.zeros

#: a matrix with orthonormal rows or columns, whichever are fewer, uniformly distributed
orthogonal = initializers.orthogonal()


def normal(std: Scalar) -> Callable:
    """Independent normal entries with this standard deviation, whatever the shape."""
    return initializers.normal(positive("std", float(std)))
