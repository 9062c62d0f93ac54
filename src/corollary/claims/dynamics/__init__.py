"""Wide networks in training: their limits, and how they get there."""
