"""Attention and transformers."""
