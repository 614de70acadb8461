# Folders, sources and flags of the C code, for csrc/Makefile and, through csrc/ninja_build.py, for
# setup.py and the tests. Plain words only: no references or functions of make.

# The layers without Python, in dependency order.
LAYERS = core format trace kernels backend runtime

# The same arithmetic everywhere; only symbols with explicit visibility are exported.
LANGUAGE = -std=c11 -D_GNU_SOURCE -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno \
  -fno-trapping-math
WARNINGS = -Wall -Wextra -Wshadow -Wconversion

# Sources of the core that are compiled into a backend, which links to none of our libraries.
SHARED_xnnpack = core/error.c format/fb.c format/fb_write.c
SHARED_interpreted = core/error.c format/fb.c format/fb_write.c

# Entry points of testing/ for ctypes (tests/op_harness.py).
HARNESS = testing/run_op.c testing/time_verify.c
