"""Tokenisers and decoding."""
