"""Neural differential equations, and gradients through time."""
