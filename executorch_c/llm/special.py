"""BOS and EOS: from arguments, the program's metadata or the tokenizer, and their conflicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from executorch_c.llm._numbers import check_type

if TYPE_CHECKING:
    from executorch_c.llm.signature import TextSignature
    from executorch_c.llm.tokenizers import Tokenizer


@dataclass(frozen=True)
class SpecialTokens:
    """Special tokens of a runner."""

    bos_id: int | None
    eos_ids: tuple[int, ...]
    conflicts: tuple[str, ...] = ()
    """A sentence for each contradiction."""


def check_size(signature: TextSignature, tokenizer: Tokenizer) -> str:
    """Return a remark on the sizes of tokenizer and program, or an empty string.

    Raises ValueError for a tokenizer with more tokens than the program has logits.
    """
    size, logits = tokenizer.vocab_size, signature.vocabulary
    if size > logits:
        raise ValueError(
            f"the tokenizer has {size} tokens, the program {logits} logits: they do "
            "not belong together"
        )
    if size < logits * 0.9:
        return (
            f"the tokenizer has {size} tokens, the program {logits} logits: the model may have "
            "another tokenizer"
        )
    return ""


def choose_special(
    signature: TextSignature,
    tokenizer: Tokenizer | None,
    bos_id: int | None,
    eos_ids: Sequence[int] | None,
) -> SpecialTokens:
    """Return BOS and EOS: the arguments, else the metadata's, else the tokenizer's.

    Raises ValueError for an id out of range, and for a tokenizer that is too large.
    """
    conflicts = []
    of_file, theirs = signature.eos_ids, tokenizer.eos_ids if tokenizer is not None else ()
    if tokenizer is not None:
        conflicts += [check_size(signature, tokenizer), getattr(tokenizer, "assumption", "")]
        if eos_ids is None and of_file and theirs and not set(theirs) & set(of_file):
            conflicts.append(
                f"EOS is {_ids(of_file)} in the program's metadata and {_ids(theirs)} "
                "in the tokenizer: the metadata's ends a generation"
            )
        if bos_id is None and None not in (signature.bos_id, tokenizer.bos_id):
            if signature.bos_id != tokenizer.bos_id:
                conflicts.append(
                    f"BOS is {signature.bos_id} in the program's metadata and "
                    f"{tokenizer.bos_id} in the tokenizer, which adds its own"
                )
    bos = bos_id if bos_id is not None else signature.bos_id
    if bos is None and tokenizer is not None:
        bos = tokenizer.bos_id
    chosen = tuple(eos_ids) if eos_ids is not None else of_file or theirs
    for name, id in [("bos_id", bos), *(("eos_ids", i) for i in chosen)]:
        if id is not None:
            check_type(name, id)
        if id is not None and not 0 <= id < signature.vocabulary:
            raise ValueError(
                f"`{name}`: {id} is not in the vocabulary of the program (0 to "
                f"{signature.vocabulary - 1})"
            )
    return SpecialTokens(bos, chosen, tuple(filter(None, conflicts)))


def _ids(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))
