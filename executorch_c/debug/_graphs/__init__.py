"""The two sides of a comparison: a program's run, and the graph of its PyTorch model."""
