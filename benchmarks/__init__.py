"""Benchmarks: executorch_c beside the official runtime, in the same run. See README.md."""
