"""Neurons, perceptrons, margins and associative memories: the part of `corollary.linear` that came before gradients."""
