"""Limits: every number that a verdict depends on, and machine epsilons.

`tolerance.py` has the rules that use them, `docs/tolerances.md` the errors that they find and miss
(made by `python -m tests.verdicts`). A sigma is a standard deviation of measured noise.
"""

from __future__ import annotations

EPSILON = {
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float32": 2.0**-23,
    "float64": 2.0**-52,
    "complex64": 2.0**-23,
    "complex128": 2.0**-52,
}
"""Machine epsilon by dtype; integers have none."""

ROUNDING_DB = 100.0
"""Ratio in dB from which only rounding differs: larger ones are equal for snapshots and
baselines."""

# ---- two arrays -------------------------------------------------------------------------------

ASSERT_CLOSE = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
"""(rtol, atol) of torch.testing.assert_close by dtype: the default of one if only the other is set.
Other dtypes must be equal."""
BY_DTYPE = {
    "float16": (1e-3, 8e-3),
    "bfloat16": (1.6e-2, 6e-2),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-12, 1e-12),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-12, 1e-12),
}
"""(rtol, atol in units of the output's scale) for arrays without a model. rtol is assert_close's;
atol is some 8 (half precision), 84 (float32) or 4,500 (float64) machine epsilons, the rounding
error of ordinary networks."""
MIN_UNRESOLVED_ERROR = 0.1
"""Error of a part of an output, relative to it, from which it counts as not compared: an SNR of
20 dB."""

# ---- scale of an element ------------------------------------------------------------------------

MIN_SLICE_ELEMENTS = 16
"""Minimum number of elements of a slice that has its own scale."""
MAX_CHANCE = 1e-8
"""Maximum probability of a slice of fewer elements (n) that has its own scale: (RMS of the slice /
RMS of the array) ** n, the chance that n elements at the array's scale are this small."""
MIN_SLICE_RATIO = 1e-5
"""Minimum ratio of such a slice's RMS to the array's: smaller slices may be residuals of
cancellation."""
MIN_SLICE_SCALE = 0.01
"""Minimum scale of a slice, relative to the scale of the whole array: large elements cause errors
elsewhere."""
MIN_FINE_SCALE = 1e-14
"""Minimum scale of fine slices, relative to the scale of the whole array."""
MIN_RUN_ELEMENTS = 4
"""Minimum number of elements of a run of small slices."""
MIN_MASK_RATIO, MIN_MASK_SIZE = 100.0, 1e4
"""Mask values have their own scale. Minimum ratio to all other elements, and minimum magnitude;
smaller mask values are negative, several, nearly equal, and have ten times the ratio."""

# ---- rounding noise ---------------------------------------------------------------------------

NOISE_RUNS = 4
"""Number of runs of the reference with random rounding."""
ELEMENT_SIGMAS = 4.0
"""Limit of an element's error, in standard deviations of the measured noise (its own and that of
its slice). Maximum over 1,440 correct outputs: 1.6."""
RMS_SIGMAS = 3.0
"""Limit of the RMS error, in standard deviations of the noise. Maximum over 1,440: 2.1."""
ROUNDING_EPSILONS = 4.0
"""Machine epsilons of an element, and of the scale around it, that are rounding in any case."""
DEVICE_RUNS = 8
"""Number of runs of a payload with the arithmetic of a device."""
DEVICE_TIE_SHARE = 0.2
"""Share of quantised integers that are another neighbour in such a run: more than the 2 * TIE_STEPS
that are near a tie, so that a few runs show what each may change."""
MAX_NOISE_SHARE = 0.1
"""Largest change of an output by rounding, relative to it, in a conclusive verdict."""
FIRST_RUNS = {1: (MAX_NOISE_SHARE / 8, 64, 1.03), 2: (MAX_NOISE_SHARE / 2, 0, 1.0)}
"""Runs after which the others are left out, if they cannot change the verdict: the largest noise
relative to the output, the fewest elements, and the mean ratio of the limits of all to theirs."""
SUM_GROWTH = 0.35
"""Sums of n terms round like one operation with SUM_GROWTH * sqrt(n) times the epsilon of the dtype
that they are accumulated in: the error of adding up one after the other, which another
implementation may do."""
TESTED_ERROR = 0.01
"""Relative error of a weight or an input whose effect on the outputs is the power of a check."""
CERTAIN_CHANGE = 2.0
"""Change of an output, in units of its limit, from which a check certainly finds it: the program's
own rounding may take a limit off it, and the change is estimated."""

# ---- quantised programs -----------------------------------------------------------------------

MIN_SQNR_DB = 10.0
"""Minimum signal-to-quantisation-noise ratio of a quantised program against its float model."""
FLOAT_RANGE_MIN_SQNR_DB = 15.0
"""The same where no activation can saturate (scales are found at run time, or activations are
floats) and every weight has at least 8 bits. Least ratio of right ones: 35."""
MAX_GRAPH_FACTOR = 2.0
"""A quantised program may be this many times further from the quantised graph than quantising has
put the graph from the float model."""
RMS_CHANCE = 4.0
"""The RMS of two samples of n elements may differ by a factor of 1 + RMS_CHANCE / sqrt(n) by
chance."""
MAX_CHANGED_SHARE = 0.1
"""Maximum share of the integers (classes) of an output that quantising may change, in a match."""
CHANNEL_MIN_SQNR_DB, CHANNEL_ERROR_FACTOR = 3.0, 8.0
"""A wrong channel has a smaller SQNR than this, and an error this many times the others' median."""
MIN_CHANNELS, MIN_CHANNEL_ELEMENTS = 4, 4
"""Minimum number of channels of a value whose channels are compared, and of elements of each."""
TIE_STEPS = 0.03
"""Distance from a tie, in steps, within which integer arithmetic may round to the other neighbour:
bias and scale of a layer are rounded, too. Largest distance in XNNPACK: 0.024."""
INT16_FACTOR_ERROR = 2.0**-15
"""Relative error of a factor of TOSA's RESCALE of int16."""

# ---- outputs that are multiples of a scale ----------------------------------------------------

MAX_GRID_ERROR = 1e-4
"""Maximum relative distance of an expected output from a multiple of the scale."""
MAX_TIE_SHARE, MIN_BIASED_TIES, MAX_TIE_BIAS = 0.02, 8, 3.0
"""Limits of rounding ties: their share of elements; from MIN_BIASED_TIES ties on, the difference
between those that are too large and too small, in units of the square root of their number."""

# ---- values inside programs -------------------------------------------------------------------

INPUT_RUNS = 3
"""Number of runs with inputs changed by a rounding."""
INPUT_SIGMAS = 8.0
"""Limit of an error between two programs, in standard deviations of the change of the value when
its inputs change by a rounding."""
INT8_STEP = 2.0**-8
"""The step of quantised numbers, relative to their range."""
MAX_GRID_STEPS = 4
"""Limit of the difference between values of two quantised programs, in steps of 256 of their
range."""
MAX_GRADUAL_RATIO = 10
"""Maximum ratio of a propagated error to the largest error of the node's inputs."""
MISMATCH_RATIO = 100.0
"""Ratio of local to accumulated error above which the inputs were matched wrongly."""
CANCELLATION_RATIO = 1e4
"""Ratio of the errors of several values to that of a node that reads them, above which they are one
rewriting: Core ML scales the keys by 0.25 instead of queries and keys by 0.5."""
MAX_DECOMPOSITION_DISTANCE = 1e-4
"""Largest distance |a - b| / (|a| + |b|) of an operator's result from its decomposition's."""
MIN_MATCHED_SHARE = 0.25
"""Share of matched nodes below which a report has a warning and, without a fault, is
inconclusive."""
MIN_PAIRED_SHARE = 0.3
"""Share of the values of the shorter of two programs that must be paired to name a first
divergence."""

# ---- matching values of programs ---------------------------------------------------------------

EQUAL_RATIO = 3.0
"""Ratio to the nearest distance (or to rounding) within which values are equally near."""
BETTER_RATIO = 8
"""Ratio of distances at which another option of an assumption is better."""
MAX_PAIR_DISTANCE = 0.35
"""Largest distance of a pair of values of two programs whose numbers differ."""
INT8_EPSILON = 2.0**-7
"""Machine epsilon of 8-bit quantised values."""
TIE_DISTANCE = 2.0**-9
"""Distance of quantised integers that differ in rounding ties only."""
MIN_BLAMED_SHARE = 0.1
"""Minimum error of the instruction to blame in the official runtime, as a share of the output's."""

# ---- logits of language models ----------------------------------------------------------------

LOGIT_ERRORS = {"float32": 1e-4, "float64": 1e-4, "float16": 2e-2, "bfloat16": 1.5e-1}
"""Largest error of logits by dtype, relative to the RMS of all logits. Exported models of float32
stay below 1e-5."""
LOGIT_MIN_SQNR_DB = 6.0
"""Minimum ratio of logits to their error in a quantised program against a float model, over all
positions of a case. Right 4-bit programs with random weights reach 7.6 to 11.6."""
ONE_LAYER_SQNR_DB = 31.5
"""The same against the model after quantisation, for one layer: programs differ from it in the
rounding of activations, whose noise adds up over layers."""
SELF_SQNR_DB = 15.0
"""The same between two ways to run one quantised program, whose activations round otherwise."""
POSITION_DB, ROUNDING_POSITION_DB = 6.0, 4.0
"""A position may be that much worse; against the model after quantisation."""
