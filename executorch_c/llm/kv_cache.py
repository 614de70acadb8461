"""KVCache: keys and values of a program whose attention is kvcache::update_and_attend.

runner = TextRunner("model.pte", kv_cache=KVCache(1024))
"""

from executorch_c._core import KVCache

__all__ = ["KVCache"]
