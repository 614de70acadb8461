"""Patches of kernels of one row: they ask for weights early. Part of `patches.py`."""

from __future__ import annotations

from get_xnnpack.patch import Patch

FAR = 8192
"""Bytes between the weights that a kernel of one row multiplies and those that it asks for."""
ASK = "__builtin_prefetch((const int8_t*) w + {}, 0, 0);\n"
"""Asks for weights that are read once: they do not displace what the next steps read."""


def far(kernel: str, near: tuple[int, ...]) -> tuple[Patch, ...]:
    """Return the patches that replace the distances of prefetches in a kernel's file."""
    line = "xnn_prefetch_to_l1((const int8_t*) w + {});\n"
    return tuple(
        Patch(f"src/{kernel}.c", line.format(at), ASK.format(FAR + at % 256), near.count(at))
        for at in dict.fromkeys(near)
    )


def asks(kernel: str, after: str, bytes_: tuple[int, ...]) -> tuple[Patch, ...]:
    """Return the patches that add prefetches to a kernel's file."""
    lines = "".join("      " + ASK.format(FAR + at) for at in bytes_)
    return (Patch(f"src/{kernel}.c", after, after + lines),)


DECODING = (
    # A product of one row waits for its weights: the processor stops to read ahead at the end of a
    # page. 62 MB of 4 bits took 1.86 ms on one thread, 1.14 on two; with this, 1.19 and 0.91.
    *(
        patch
        for bits in ("qb4w", "qc4w")
        for vnni in ("vnni", "vnnigfni")
        for patch in far(
            f"qd8-f32-{bits}-gemm/gen/qd8-f32-{bits}-gemm-1x16c8-minmax-avx512{vnni}-prfm",
            (896, 960) * 2,
        )
    ),
    *far(
        "qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-1x16c8-minmax-avx512vnni-prfm",
        (768, 832, *(896, 960) * 2),
    ),
    *asks(
        "qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-1x8c8-minmax-avx2",
        "      while (k >= 16 * sizeof(int8_t)) {\n",
        (0,),
    ),
    *asks(
        "f32-gemm/gen/f32-gemm-1x32-minmax-avx512f-broadcast",
        "      const __m512 vb1 = _mm512_loadu_ps(w + 16);\n",
        (0, 64),
    ),
    *asks(
        "f32-gemm/gen/f32-gemm-1x16-minmax-fma3-broadcast",
        "      const __m256 va0 = _mm256_broadcast_ss(a0);\n",
        (0,),
    ),
)
