"""Linear and logistic regression."""
