"""The commands of `executorch-c`, one module each: `add` adds its parser, `main` runs it."""
