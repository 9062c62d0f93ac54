"""Networks as Equinox modules, named as in the texts.

The families of architectures (`nets.convolutional`, `nets.recurrent`, ...) load when they are first touched.
"""

import importlib as _importlib

from corollary._engine.cpu_ready import cpu_ready
from corollary.nets import from_scratch
from corollary.nets.activations import (
    ACTIVATIONS,
    Activation,
    arctan,
    clipped_relu,
    gaussian_second_moment,
    heaviside,
    identity,
    leaky_relu,
    logistic,
    logistic_derivative,
    relu,
    sign,
    softplus,
    tanh,
)
from corollary.nets.autoencoder import (
    Gradients,
    LinearAutoencoder,
    autoencoder_gradients,
    optimal_autoencoder,
    rank_error,
    reconstruction_loss,
    truncated_svd,
)
from corollary.nets.classifier import Backpropagated, Classifier, accuracy, classifier_backprop, mean_loss
from corollary.nets.composition import Composition, Stack, matrix_of, parameter_count, superposition_defect
from corollary.nets.convolution import Convolution, pool
from corollary.nets.cost import (
    Memory,
    backward_cost,
    forward_cost,
    memory_cost,
    printed_backward_cost,
    printed_memory_cost,
)
from corollary.nets.dense import DenseNetwork
from corollary.nets.epochs import epoch_batches, train_epochs
from corollary.nets.equivalence import logistic_to_tanh, tanh_to_logistic
from corollary.nets.feedforward import FeedForward, HyperParameters, book_feedforward
from corollary.nets.fit import fit
from corollary.nets.growing import GrowingNetwork, Growth, grows, train_growing
from corollary.nets.initialisations import (
    glorot_normal,
    glorot_uniform,
    he_normal,
    he_uniform,
    lecun_normal,
    normal,
    orthogonal,
    standard_normal,
    uniform_fan_in,
    zeros,
)
from corollary.nets.layers import AffineUnit, FullyConnected, LinearUnit, RidgeUnit, ThresholdUnit
from corollary.nets.losses import Split, empirical_risk, train_validation_split
from corollary.nets.mlp import MLP, DeepLinearNetwork, ShallowNetwork, SigmoidMLP, collapse, permute_hidden
from corollary.nets.piecewise import piecewise_linear, relu_network, smooth_maximum
from corollary.nets.rectangles import intersection_network, smooth_rectangle, smooth_staircase, staircase
from corollary.nets.residual import ProjectedResidualLayer, ResidualBlock, ResidualLayer
from corollary.nets.steps import (
    conjunction_error,
    nested_step,
    opposing_sum,
    smooth_and,
    smooth_clip,
    smooth_step,
    smooth_xnor,
    smooth_xor,
)
from corollary.nets.symmetries import flip_hidden, hidden_symmetries, outer_positive
from corollary.nets.training import Trained, train
from corollary.nets.truth_tables import REGIONS, Region, in_region, indicator, region_of, truth_table_network
from corollary.nets.two_gaussians import bayes_logit, book_two_gaussians, two_gaussians

__all__ = [
    "ACTIVATIONS",
    "MLP",
    "REGIONS",
    "Activation",
    "AffineUnit",
    "Backpropagated",
    "Classifier",
    "Composition",
    "Convolution",
    "DeepLinearNetwork",
    "DenseNetwork",
    "FeedForward",
    "FullyConnected",
    "Gradients",
    "GrowingNetwork",
    "Growth",
    "HyperParameters",
    "LinearAutoencoder",
    "LinearUnit",
    "Memory",
    "ProjectedResidualLayer",
    "Region",
    "ResidualBlock",
    "ResidualLayer",
    "RidgeUnit",
    "ShallowNetwork",
    "SigmoidMLP",
    "Split",
    "Stack",
    "ThresholdUnit",
    "Trained",
    "accuracy",
    "arctan",
    "autoencoder_gradients",
    "backward_cost",
    "bayes_logit",
    "book_feedforward",
    "book_two_gaussians",
    "classifier_backprop",
    "clipped_relu",
    "collapse",
    "conjunction_error",
    "cpu_ready",
    "empirical_risk",
    "epoch_batches",
    "fit",
    "flip_hidden",
    "forward_cost",
    "from_scratch",
    "gaussian_second_moment",
    "glorot_normal",
    "glorot_uniform",
    "grows",
    "he_normal",
    "he_uniform",
    "heaviside",
    "hidden_symmetries",
    "identity",
    "in_region",
    "indicator",
    "intersection_network",
    "leaky_relu",
    "lecun_normal",
    "logistic",
    "logistic_derivative",
    "logistic_to_tanh",
    "matrix_of",
    "mean_loss",
    "memory_cost",
    "nested_step",
    "normal",
    "opposing_sum",
    "optimal_autoencoder",
    "orthogonal",
    "outer_positive",
    "parameter_count",
    "permute_hidden",
    "piecewise_linear",
    "pool",
    "printed_backward_cost",
    "printed_memory_cost",
    "rank_error",
    "reconstruction_loss",
    "region_of",
    "relu",
    "relu_network",
    "sign",
    "smooth_and",
    "smooth_clip",
    "smooth_maximum",
    "smooth_rectangle",
    "smooth_staircase",
    "smooth_step",
    "smooth_xnor",
    "smooth_xor",
    "softplus",
    "staircase",
    "standard_normal",
    "superposition_defect",
    "tanh",
    "tanh_to_logistic",
    "train",
    "train_epochs",
    "train_growing",
    "train_validation_split",
    "truncated_svd",
    "truth_table_network",
    "two_gaussians",
    "uniform_fan_in",
    "zeros",
]

FAMILIES = ("attention", "convolutional", "graphs", "normalisation", "recurrent", "sets")


def __getattr__(name: str):
    if name in FAMILIES:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *FAMILIES])
