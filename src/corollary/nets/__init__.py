"""Networks as Equinox modules, named as in the texts."""

from corollary.nets.activations import (
    ACTIVATIONS,
    Activation,
    arctan,
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
from corollary.nets.composition import Composition, Stack, matrix_of, parameter_count, superposition_defect
from corollary.nets.convolution import Convolution, pool
from corollary.nets.dense import DenseNetwork
from corollary.nets.equivalence import logistic_to_tanh, tanh_to_logistic
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
from corollary.nets.losses import (
    Split,
    empirical_risk,
    half_squared_error,
    logistic_cross_entropy,
    softmax_cross_entropy,
    train_validation_split,
)
from corollary.nets.mlp import MLP, DeepLinearNetwork, ShallowNetwork, SigmoidMLP, collapse, permute_hidden
from corollary.nets.residual import ProjectedResidualLayer, ResidualBlock, ResidualLayer
from corollary.nets.training import Trained, train
