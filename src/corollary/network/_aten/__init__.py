"""PyTorch's operators, ATen, in JAX, and the graphs that are made of them: pure functions. Private.

`export` makes a graph of a module with PyTorch's own exporter; what it hands on is plain data without PyTorch. `graph`
runs it. The operators are in one table, by their names in PyTorch; they take their arguments by the names of PyTorch's
schemas, and have PyTorch's subgradients where a derivative does not exist.
"""
