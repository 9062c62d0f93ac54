"""Generative models, their likelihoods and their games."""
