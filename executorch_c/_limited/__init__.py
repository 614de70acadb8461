"""Child processes with limits of processor time and memory, for untrusted data."""
