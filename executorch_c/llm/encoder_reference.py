"""References of encoder-decoder programs: the encoder's output, and logits of the decoder after it.

The decoder of a reference starts from the states that the program's encoder has computed, so that
an error of the encoder is one of the encoder only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c import _extras
from executorch_c._arrays import as_array
from executorch_c.llm.encoder_decoder import DECODER, ENCODER, EncoderDecoder
from executorch_c.llm.reference import (
    ArrayReference,
    FunctionReference,
    ModelReference,
    ProgramReference,
    Reference,
)
from executorch_c.llm.runner import as_float32

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c.llm.signature import TextSignature


class Seq2SeqReference(ModelReference):
    """An encoder-decoder of Hugging Face: T5, BART, Whisper and others. It gets whole sequences,
    without a cache."""

    def __init__(self, model: Any, signature: TextSignature) -> None:
        super().__init__(model, signature)
        self.is_of_hugging_face, self.takes_positions = True, False

    @property
    def encoder(self) -> Any:
        """The module that encodes."""
        return self.model.get_encoder()

    @property
    def decoder(self) -> Any:
        """The module that decodes, without the layer of the logits."""
        return self.model.get_decoder()

    def encoded(self, value: Array, number: int) -> Array | None:
        """Return the output of the model's encoder."""
        with self.torch.no_grad():
            return as_array(states_of_encoder(self.encoder(self._tensor(value))))

    def use(self, states: Array, number: int) -> None:
        """Decode from states of an encoder."""
        self.states = self._tensor(states)

    def _tensor(self, array: Array) -> Any:
        """Return an array as a tensor, floats in the model's dtype."""
        if array.dtype.kind in "iu" and array.dtype != np.uint16:
            return self.torch.from_numpy(array)
        floats = self.torch.from_numpy(np.ascontiguousarray(as_float32(array)))
        dtype = next((p.dtype for p in self.model.parameters() if p.is_floating_point()), None)
        return floats if dtype is None else floats.to(dtype)

    def keywords(self, tokens: Any, *others: Any) -> dict[str, Any]:
        """Return the arguments of the model for tokens, after the encoder's states."""
        states = others[0] if others else self.states
        return {"decoder_input_ids": tokens, "encoder_outputs": (states,)}


def states_of_encoder(output: Any) -> Any:
    """Return the tensor of an encoder's output: the tensor itself, or of Hugging Face."""
    output = getattr(output, "last_hidden_state", output)
    return output[0] if isinstance(output, (tuple, list)) else output


class MethodsReference(ModelReference):
    """Modules by the names of the program's methods, with their inputs."""

    def __init__(self, modules: Mapping[str, Any], signature: TextSignature) -> None:
        decoder = signature.decode.method
        missing = [name for name in (ENCODER, decoder) if name not in modules]
        if missing:
            raise ValueError(
                f"`model`: found modules {', '.join(modules) or 'none'}, expected "
                f"'{ENCODER}' and '{decoder}'"
            )
        super().__init__(modules[decoder], signature)
        self.is_of_hugging_face, self.takes_positions = False, True
        self.encoder = modules[ENCODER]

    def encoded(self, value: Array, number: int) -> Array | None:
        """Return the output of the module "encoder"."""
        with self.torch.no_grad():
            return as_array(states_of_encoder(self.encoder(as_tensor(value))))

    def use(self, states: Array, number: int) -> None:
        """Decode from states of an encoder."""
        self.states = as_tensor(states)

    def arguments(self, tokens: Any, *others: Any) -> tuple[Any, ...]:
        """Return the arguments of the module "text_decoder": tokens, states and positions; states
        are those in use, if only positions follow the tokens."""
        return (tokens, *others) if len(others) > 1 else (tokens, self.states, *others)


def as_tensor(array: Array) -> Any:
    """Return a torch.Tensor with a copy of an array's numbers."""
    from executorch_c.debug._graphs import layouts

    return layouts.as_tensor(array)


class EncodedArrays(ArrayReference):
    """Arrays of logits, one for each pair of encoder input and prompt."""

    number = 0

    def use(self, states: Array, number: int) -> None:
        """Return the logits of the prompt with a number from now on."""
        self.number = number

    def logits(self, ids: Sequence[int], by_token: bool = False) -> Array | None:
        """Return the logits of the prompt, or of its beginning."""
        known, rows = self.known[self.number]
        return rows[: len(ids)] if known[: len(ids)] == list(ids) else None


class EncodedFunction(FunctionReference):
    """A function from an input of the encoder and ids to logits [n, V] or [1, n, V]."""

    def __init__(
        self, function: Callable[..., object], inputs: Sequence[Array], vocabulary: int
    ) -> None:
        super().__init__(lambda ids: function(self.inputs[self.number], ids), vocabulary)
        self.inputs, self.number = inputs, 0

    def use(self, states: Array, number: int) -> None:
        """Pass the input with a number from now on."""
        self.number = number


class EncodedProgram(ProgramReference):
    """Another encoder-decoder program."""

    runner: EncoderDecoder

    def encoded(self, value: Array, number: int) -> Array | None:
        """Return the output of the program's encoder."""
        return self.runner._encode(self.runner.as_encoder_input(value))

    def use(self, states: Array, number: int) -> None:
        """Decode from states of an encoder."""
        self.runner._hidden = states


def make_encoder_reference(
    model: Any,
    signature: TextSignature,
    prompts: Sequence[Sequence[int]],
    inputs: Sequence[Array],
    tokenizer: Any = None,
) -> Reference | None:
    """Return the reference of an argument of check_llm for a program with an encoder; None for
    None.

    Raises TypeError for a module that is no encoder-decoder of Hugging Face, ValueError for
    modules of other methods.
    """
    if model is None:
        return None
    if isinstance(model, EncoderDecoder):
        return EncodedProgram(model)
    if isinstance(model, Mapping):
        return MethodsReference(model, signature)
    if hasattr(model, "named_buffers"):
        if not hasattr(model, "get_encoder"):
            raise TypeError(
                f"`model`: {type(model).__name__} has no get_encoder(); pass "
                f"{{'{ENCODER}': module, '{DECODER}': module}} with the inputs of the "
                "program's methods"
            )
        _extras.require("a PyTorch reference", "torch")
        return Seq2SeqReference(model, signature)
    if isinstance(model, (list, tuple)):
        return EncodedArrays(model, prompts, signature.vocabulary)
    if isinstance(model, np.ndarray):
        return EncodedArrays([model], prompts, signature.vocabulary)
    from executorch_c import Program

    if isinstance(model, Program) or not callable(model):
        return EncodedProgram(EncoderDecoder(model, tokenizer, delegate_at_load=False))
    return EncodedFunction(model, inputs, signature.vocabulary)
