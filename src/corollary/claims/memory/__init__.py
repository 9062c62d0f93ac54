"""Hopfield networks, dense memories, and the elements of parallel distributed processing."""
