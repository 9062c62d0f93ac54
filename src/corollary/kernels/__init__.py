"""Kernels and the features behind them."""
