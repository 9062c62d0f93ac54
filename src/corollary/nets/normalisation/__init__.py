"""Normalised layers: over a batch, and over the units of a layer."""

from corollary.nets.normalisation.batch import (
    BatchNorm,
    Moments,
    NormalisedBatch,
    batch_normalise,
    batch_normalise_backward,
)
from corollary.nets.normalisation.coupling import ScalarProductNetwork, UpdatedOutput, updated_output
from corollary.nets.normalisation.layer import layer_normalise, layer_normalise_jacobian
from corollary.nets.normalisation.mlp import NormalisedMLP

__all__ = [
    "BatchNorm",
    "Moments",
    "NormalisedBatch",
    "NormalisedMLP",
    "ScalarProductNetwork",
    "UpdatedOutput",
    "batch_normalise",
    "batch_normalise_backward",
    "layer_normalise",
    "layer_normalise_jacobian",
    "updated_output",
]
