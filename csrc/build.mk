# Folders, sources and flags of the C code, for csrc/Makefile and, by csrc/ninja_build.py, for
# setup.py and the tests. Words only: no references, no functions of make.

# The layers without Python, in the order of their dependencies.
LAYERS = core format trace kernels backend runtime

# The same arithmetic everywhere, and no symbols but those that are exported on purpose.
LANGUAGE = -std=c11 -D_GNU_SOURCE -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno \
  -fno-trapping-math
WARNINGS = -Wall -Wextra -Wshadow -Wconversion

# Sources of the core that are compiled into a backend, which links to nothing of ours.
SHARED_xnnpack = core/error.c format/fb.c

# Entry points of testing/ for ctypes (tests/op_harness.py).
HARNESS = testing/run_op.c testing/time_verify.c
