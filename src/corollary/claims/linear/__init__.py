"""Linear models: regression, classification, perceptrons and margins."""
