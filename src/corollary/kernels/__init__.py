"""Kernels: functions of two points, their Gram matrices and features, and the methods that need no more than that."""

from corollary.kernels.functions import (
    ArcCosineKernel,
    BrownianKernel,
    FeatureKernel,
    GaussianKernel,
    LaplaceKernel,
    LinearKernel,
    PolynomialKernel,
)
from corollary.kernels.gram import Definiteness, definiteness, gram, is_kernel
from corollary.kernels.learned_features import (
    LearnedFeatureClassifier,
    Training,
    classifier_loss,
    train_classifier,
)
from corollary.kernels.low_rank import Cost, feature_cost, gram_cost, nystrom, truncation_error
from corollary.kernels.mercer import (
    Expansion,
    brownian_eigenfunctions,
    brownian_eigenvalues,
    mercer,
    mercer_features,
    truncated,
)
from corollary.kernels.monomials import monomial_count, monomial_features, quadratic_features
from corollary.kernels.perceptron import DualRun, KernelPerceptron, kernel_perceptron, primal_from_dual
from corollary.kernels.ridge import (
    KernelRidge,
    dual_objective,
    feature_ridge,
    kernel_ridge_dual,
    primal_objective,
)

__all__ = [
    "ArcCosineKernel",
    "BrownianKernel",
    "Cost",
    "Definiteness",
    "DualRun",
    "Expansion",
    "FeatureKernel",
    "GaussianKernel",
    "KernelPerceptron",
    "KernelRidge",
    "LaplaceKernel",
    "LearnedFeatureClassifier",
    "LinearKernel",
    "PolynomialKernel",
    "Training",
    "brownian_eigenfunctions",
    "brownian_eigenvalues",
    "classifier_loss",
    "definiteness",
    "dual_objective",
    "feature_cost",
    "feature_ridge",
    "gram",
    "gram_cost",
    "is_kernel",
    "kernel_perceptron",
    "kernel_ridge_dual",
    "mercer",
    "mercer_features",
    "monomial_count",
    "monomial_features",
    "nystrom",
    "primal_from_dual",
    "primal_objective",
    "quadratic_features",
    "train_classifier",
    "truncated",
    "truncation_error",
]
