"""Normalised layers."""
