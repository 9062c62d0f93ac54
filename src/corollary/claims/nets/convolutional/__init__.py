"""Convolutions and the networks made of them."""
