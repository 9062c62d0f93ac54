"""Kernels: features, Gram matrices, regression."""
