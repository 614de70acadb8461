"""The two sides of a comparison: what a program computed, and the graph of its PyTorch model."""
