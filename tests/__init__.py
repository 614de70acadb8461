"""Tests of executorch_c: see README.md."""
