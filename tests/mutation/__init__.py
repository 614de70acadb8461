"""Mutants of the code: small faults, one at a time, which tests must find."""
