"""Decisions over time, and the learning of values."""
