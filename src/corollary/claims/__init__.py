"""The statements of the theory as measurements: one module a subject, one function a claim."""
