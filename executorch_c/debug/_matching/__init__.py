"""Matching of a program's values with the nodes of a model, or with another program's values."""
