r"""What a softmax classifier costs: operations forwards and backwards, and numbers to remember (M section 8.3).

The convention, which the text leaves to the reader: a product of an $a\times b$ matrix and a vector is $2ab$
operations, an outer product $ab$, an entrywise sum, product or activation of $a$ entries $a$, the softmax of $J$
entries $J$. What the forward pass has computed is kept; $\sigma'(Z)$ and the update of the parameters are not counted.
`depth` is $L$, the number of hidden layers, `width` $d_H$, `inputs` $d$, `classes` $J$.
"""

from typing import NamedTuple

from corollary._validate import whole
from corollary.catalog import implements


@implements("M08.03")
def forward_cost(depth: int, width: int, inputs: int, classes: int) -> int:
    r"""$2(L-1)(d_H^2+d_H)+2d_H(1+d+J)+2J$ operations to classify one example: as printed, and right."""
    L, h, d, J = _sizes(depth, width, inputs, classes)
    return 2 * (L - 1) * (h * h + h) + 2 * h * (1 + d + J) + 2 * J


@implements("M08.04")
def backward_cost(depth: int, width: int, inputs: int, classes: int, batch_size: int = 1) -> int:
    r"""$M_o[(L-1)(3d_H^2+d_H)+d_H(d+3J+1)+J]$ operations for the gradient of $M_o$ examples, after the forward pass."""
    L, h, d, J = _sizes(depth, width, inputs, classes)
    return whole("batch_size", batch_size) * ((L - 1) * (3 * h * h + h) + h * (d + 3 * J + 1) + J)


@implements("M08.04")
def printed_backward_cost(depth: int, width: int, inputs: int, classes: int, batch_size: int = 1) -> int:
    r"""$M_o[(L-1)(3d_H^2+d_H)+d_H(2d_H+d+3J+1)+2J]$, as printed: $2d_H^2+J$ too many for each example."""
    L, h, d, J = _sizes(depth, width, inputs, classes)
    return whole("batch_size", batch_size) * ((L - 1) * (3 * h * h + h) + h * (2 * h + d + 3 * J + 1) + 2 * J)


class Memory(NamedTuple):
    """How many numbers are kept, by what they are for."""

    parameters: int
    sensitivities: int
    activations: int

    @property
    def total(self) -> int:
        return sum(self)

    def gigabytes(self, bytes_each: int = 4) -> float:
        """The total in units of $10^9$ bytes."""
        return self.total * whole("bytes_each", bytes_each) / 1e9


@implements("M08.05")
def memory_cost(depth: int, width: int, inputs: int, classes: int, batch_size: int = 1) -> Memory:
    r"""$(L-1)(d_H^2+d_H)+d_H(d+1+J)+J$ parameters, $2M_od_H$ for two layers of sensitivities, $2LM_od_H$ for $Z$ and
    $H$.
    """
    L, h, d, J = _sizes(depth, width, inputs, classes)
    batch_size = whole("batch_size", batch_size)
    return Memory((L - 1) * (h * h + h) + h * (d + 1 + J) + J, 2 * batch_size * h, 2 * L * batch_size * h)


@implements("M08.05")
def printed_memory_cost(depth: int, width: int, inputs: int, classes: int, batch_size: int = 1) -> Memory:
    """As printed: without the bias of the first layer and without what the forward pass leaves for the backward one."""
    L, h, d, J = _sizes(depth, width, inputs, classes)
    return Memory((L - 1) * (h * h + h) + h * (d + J) + J, 2 * whole("batch_size", batch_size) * h, 0)


def _sizes(depth, width, inputs, classes):
    return whole("depth", depth), whole("width", width), whole("inputs", inputs), whole("classes", classes, 2)
