"""The commands of `executorch-c`, one module each: `add` makes its parser, `run` does it."""
