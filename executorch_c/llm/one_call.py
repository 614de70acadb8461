"""The model at one call of a script, for explain: with the state of the calls before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from executorch_c.llm.encoder_reference import as_tensor, states_of_encoder
from executorch_c.llm.reference import deep_copy

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c.llm.reference import ModelReference
    from executorch_c.llm.scripts import Action, Script


def model_of_encoder(encoder: Any) -> Any:
    """Return a module that computes an encoder's states."""
    import torch

    class Encoder(torch.nn.Module):
        """The encoder, with a tensor as its output."""

        def __init__(self) -> None:
            super().__init__()
            self.model, self.training = encoder, encoder.training

        def forward(self, value: Any) -> Any:
            return states_of_encoder(self.model(value))

    return Encoder()


def model_at(
    script: Script,
    number: int,
    calls: Sequence[tuple[Action, str, list[Array]]],
    reference: ModelReference,
) -> tuple[Any, tuple[Any, ...]]:
    """Return the model at the action with a number, and its arguments for the call's inputs.
    `calls`: those of the script (`calls_of`)."""
    import torch

    tensors = tuple(map(as_tensor, calls[number][2]))
    if reference.is_of_hugging_face:
        before = script.known()[number - 1] if number and reference.signature.has_cache else ()
        return _of_hugging_face(reference, before), tensors
    model = deep_copy(reference.model)
    with torch.no_grad():
        for action, _, earlier in calls[:number]:
            if action.kind == "feed":
                model(*reference.arguments(*map(as_tensor, earlier)))
    return model, reference.arguments(*tensors)


def _of_hugging_face(reference: ModelReference, ids: Sequence[int]) -> Any:
    """Return a model of Hugging Face after some tokens, with the inputs of the program."""
    import torch

    class After(torch.nn.Module):
        """The model with keys and values of earlier tokens."""

        def __init__(self, past: Sequence[tuple[Any, Any]]) -> None:
            super().__init__()
            self.model, self.training = reference.model, reference.model.training
            self.count = len(past)
            for i, (keys, values) in enumerate(past):
                self.register_buffer(f"keys_{i}", keys, persistent=False)
                self.register_buffer(f"values_{i}", values, persistent=False)

        def forward(self, tokens: Any, *others: Any) -> Any:
            keywords = reference.keywords(tokens, *others[:-1])
            if not self.count:
                return self.model(**keywords, use_cache=False).logits
            past = [
                (getattr(self, f"keys_{i}"), getattr(self, f"values_{i}"))
                for i in range(self.count)
            ]
            name = _name_of_cache(self.model)
            return self.model(**keywords, **{name: _cache(past, keywords)}, use_cache=True).logits

    return After(_past(reference, ids) if ids else ())


def _name_of_cache(model: Any) -> str:
    """Return the name of the argument that takes a cache: it depends on transformers' version."""
    import inspect

    known = inspect.signature(model.forward).parameters
    return "past_key_values" if "past_key_values" in known else "cache"


def _past(reference: ModelReference, ids: Sequence[int]) -> list[tuple[Any, Any]]:
    """Return keys and values of each layer's attention after some tokens."""
    import torch

    with torch.no_grad():
        tokens = torch.tensor([list(ids)], dtype=torch.int64)
        output = reference.model(**reference.keywords(tokens), use_cache=True)
    cache = getattr(output, _name_of_cache(reference.model))
    cache = getattr(cache, "self_attention_cache", cache)
    return [(layer.keys, layer.values) for layer in cache.layers]


def _cache(past: Sequence[tuple[Any, Any]], keywords: dict[str, Any]) -> Any:
    """Return a cache with keys and values of each layer."""
    from transformers import DynamicCache, EncoderDecoderCache

    cache = DynamicCache()
    for i, (keys, values) in enumerate(past):
        cache.update(keys, values, i)
    return EncoderDecoderCache(cache, DynamicCache()) if "encoder_outputs" in keywords else cache
