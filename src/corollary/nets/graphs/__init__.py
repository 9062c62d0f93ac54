"""Networks of graphs: message passing and what it cannot see, attention, and filters in the spectrum."""

from corollary.data import adjacency
from corollary.nets.graphs.gat import GAT, GATLayer
from corollary.nets.graphs.gcn import GCN, GCNClassifier, GCNLayer, gcn_coupling, gcn_propagate
from corollary.nets.graphs.laplacian import (
    graph_laplacian,
    laplacian,
    laplacian_apply,
    sphere_mean_defect,
    sphere_rule,
)
from corollary.nets.graphs.message_passing import MessagePassing
from corollary.nets.graphs.neighbours import Edges, degrees, neighbour_max, neighbour_mean, neighbour_sum
from corollary.nets.graphs.spectral import (
    GraphFourier,
    chebyshev_coefficients,
    chebyshev_filter,
    eigendecomposition_cost,
    graph_convolve,
    polynomial_filter,
    polynomial_filter_cost,
    spectral_filter,
)
from corollary.nets.graphs.spectral_layer import SpectralLayer
from corollary.nets.graphs.symmetry import graph_equivariance_defect, graph_invariance_defect
from corollary.nets.graphs.weisfeiler_lehman import Colouring, wl_colours, wl_distinguishes

__all__ = [
    "GAT",
    "GCN",
    "Colouring",
    "Edges",
    "GATLayer",
    "GCNClassifier",
    "GCNLayer",
    "GraphFourier",
    "MessagePassing",
    "SpectralLayer",
    "adjacency",
    "chebyshev_coefficients",
    "chebyshev_filter",
    "degrees",
    "eigendecomposition_cost",
    "gcn_coupling",
    "gcn_propagate",
    "graph_convolve",
    "graph_equivariance_defect",
    "graph_invariance_defect",
    "graph_laplacian",
    "laplacian",
    "laplacian_apply",
    "neighbour_max",
    "neighbour_mean",
    "neighbour_sum",
    "polynomial_filter",
    "polynomial_filter_cost",
    "spectral_filter",
    "sphere_mean_defect",
    "sphere_rule",
    "wl_colours",
    "wl_distinguishes",
]
