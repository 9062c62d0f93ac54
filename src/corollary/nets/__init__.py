"""Networks as Equinox modules, named as in the texts."""
