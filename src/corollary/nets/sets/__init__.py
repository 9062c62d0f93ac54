"""Networks of sets: their symmetries, Deep Sets and PointNet."""

from corollary.nets.permutations import (
    all_permutations,
    equivariance_defect,
    generators,
    invariance_defect,
    random_permutations,
)
from corollary.nets.sets.deep_sets import DeepSets, DeepSetsEquivariant, code, decode, from_power_sums, power_sums
from corollary.nets.sets.pointnet import (
    PointFeatures,
    PointNet,
    PointNetClassifier,
    PointNetSegmenter,
    TNet,
    orthogonality_penalty,
)

__all__ = [
    "DeepSets",
    "DeepSetsEquivariant",
    "PointFeatures",
    "PointNet",
    "PointNetClassifier",
    "PointNetSegmenter",
    "TNet",
    "all_permutations",
    "code",
    "decode",
    "equivariance_defect",
    "from_power_sums",
    "generators",
    "invariance_defect",
    "orthogonality_penalty",
    "power_sums",
    "random_permutations",
]
