"""Static key-value caches of transformers in the buffers of a module, for export."""

from typing import Any

import torch
import transformers


def metadata(context: int, vocabulary: int, **more: int) -> dict[str, Any]:
    """Return the constant methods of a program of Optimum."""
    return {
        "get_max_seq_len": context,
        "get_bos_id": 1,
        "get_eos_id": 2,
        "use_kv_cache": True,
        "get_vocab_size": vocabulary,
        **more,
    }


class Layer(transformers.StaticLayer):  # type: ignore[misc]
    """A static cache of a layer that writes at given positions."""

    at: torch.Tensor

    def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> Any:
        self.keys.index_copy_(2, self.at, key_states)
        self.values.index_copy_(2, self.at, value_states)
        return self.keys, self.values


class Caches(torch.nn.Module):
    """A module with the caches of a decoder of transformers."""

    def __init__(self, config: Any, context: int) -> None:
        super().__init__()
        self.context = context
        heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
        dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.layers = [Layer(context) for _ in range(config.num_hidden_layers)]
        for i, layer in enumerate(self.layers):
            empty = torch.zeros(1, heads, 1, dim)
            layer.lazy_initialization(empty, empty)
            self.register_buffer(f"key_cache_{i}", layer.keys, persistent=False)
            self.register_buffer(f"value_cache_{i}", layer.values, persistent=False)

    def cache(self, positions: torch.Tensor) -> Any:
        """Return the caches, which write at positions."""
        for i, layer in enumerate(self.layers):
            layer.keys = getattr(self, f"key_cache_{i}")
            layer.values = getattr(self, f"value_cache_{i}")
            layer.at = positions
        return transformers.Cache(layers=self.layers)

    def seen(self, positions: torch.Tensor, window: int = 0) -> torch.Tensor:
        """Return the mask of attention: the entries up to a position, or its window of them."""
        entries = torch.arange(self.context)[None]
        mask = entries <= positions[:, None]
        if window:
            mask = mask & (entries > positions[:, None] - window)
        return mask[None, None]
