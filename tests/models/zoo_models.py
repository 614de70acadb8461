"""The models of the zoo: functions with the decorator `@model`, which registers them.

Add a model: write a function that returns one `Spec` (the method "forward") or a `Zoo` of several,
decorate it, and keep its export below a second if possible. zoo.py exports and caches them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.models.blocks import EFFICIENTNET_B0, MOBILENET_V2, Accumulator, Fn, UNet, conv_bn
from tests.models.blocks import inverted, resnet, with_statistics

# ---- Registry ---------------------------------------------------------------------------------


@dataclass
class Spec:
    """One method: an eval() module, the inputs of successive calls, the export options."""

    module: nn.Module
    calls: list[tuple[Any, ...]]
    dynamic_shapes: Any = None
    strict: bool = False


@dataclass
class Zoo:
    """A file: its methods, its constant methods and its planning options."""

    methods: dict[str, Spec]
    constants: dict[str, Any] = field(default_factory=dict)
    planning: dict[str, Any] = field(default_factory=dict)

    @property
    def shares_state(self) -> bool:
        """True if the methods share buffers."""
        return bool(self.planning.get("share_mutable_buffers"))


@dataclass(frozen=True)
class Entry:
    """A registered model; `large` ones are for benchmarks."""

    name: str
    make: Callable[[], Spec | Zoo]
    large: bool = False

    def build(self) -> Zoo:
        """Return the seeded model, its inputs and options, in float32 and eval mode."""
        torch.manual_seed(0)
        model = self.make()
        zoo = model if isinstance(model, Zoo) else Zoo({"forward": model})
        for spec in zoo.methods.values():
            with_statistics(spec.module).eval()
        return zoo


MODELS: dict[str, Entry] = {}


def model(name: str, large: bool = False) -> Callable[[Callable[[], Spec | Zoo]], Any]:
    """Return a decorator that registers a function."""

    def register(make: Callable[[], Spec | Zoo]) -> Callable[[], Spec | Zoo]:
        MODELS[name] = Entry(name, make, large)
        return make

    return register


# ---- Multi-layer and recurrent ----------------------------------------------------------------


@model("mlp")
def mlp() -> Spec:
    net = nn.Sequential(
        nn.Linear(16, 32),
        nn.ReLU(),
        *(nn.Linear(32, 32), nn.GELU(), nn.LayerNorm(32)),
        *(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 10), nn.LogSoftmax(-1)),
    )
    return Spec(net, [(torch.randn(4, 16),)])


def drawn(count: int, *shape: int) -> list[tuple[Any, ...]]:
    """Return the inputs of calls."""
    return [(torch.randn(shape),) for _ in range(count)]


def image(size: int, count: int = 1) -> list[tuple[Any, ...]]:
    return [(torch.randn(count, 3, size, size),)]


def mobilenet_v2(size: int, width: float, classes: int) -> Spec:
    return Spec(inverted(MOBILENET_V2, width, classes, nn.ReLU6, squeeze=False), image(size))


def recurrent(cell: type[nn.LSTM] | type[nn.GRU]) -> Spec:
    net = cell(12, 16, num_layers=2, batch_first=True, bidirectional=True)
    return Spec(net, [(torch.randn(2, 5, 12),)])


model("lstm")(lambda: recurrent(nn.LSTM))
model("gru")(lambda: recurrent(nn.GRU))

# ---- Convolutional ----------------------------------------------------------------------------

model("unet")(lambda: Spec(UNet(), image(32)))
model("mobilenet_v2")(lambda: mobilenet_v2(32, 0.25, 10))
model("mobilenet_v2_224", large=True)(lambda: mobilenet_v2(224, 1.0, 1000))
model("efficientnet")(lambda: Spec(inverted(EFFICIENTNET_B0, 0.25, 10, nn.SiLU, True), image(32)))
model("resnet18")(lambda: Spec(resnet(8, 10), image(32)))
model("resnet18_224", large=True)(lambda: Spec(resnet(64, 1000), image(224)))


@model("channels_last")
def channels_last() -> Spec:
    """Use input and weight in channels_last, for dim orders other than contiguous."""
    net = nn.Sequential(conv_bn(3, 8), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3))
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    return Spec(net.to(memory_format=torch.channels_last), [(x,)])


# ---- Attention --------------------------------------------------------------------------------


@model("transformer_encoder")
def transformer_encoder() -> Spec:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return Spec(net, [(torch.randn(2, 7, 32),)])


SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


def tokens(*shape: int, vocabulary: int = 100) -> Tensor:
    """Return random token ids."""
    return torch.randint(0, vocabulary, shape)


def pretrained(kind: str, config: str, **sizes: int) -> nn.Module:
    """Return a model of transformers, small and with random weights."""
    import transformers

    net: nn.Module = getattr(transformers, kind)(getattr(transformers, config)(**sizes))
    return net


@model("vit")
def vit() -> Spec:
    net = pretrained("ViTModel", "ViTConfig", image_size=32, patch_size=8, **SIZES)
    return Spec(Fn(lambda x, net: net(x).pooler_output, net=net), image(32, 2))


@model("bert")
def bert() -> Spec:
    net = pretrained("BertModel", "BertConfig", vocab_size=100, max_position_embeddings=32, **SIZES)
    mask = torch.tensor([[1] * 8, [1] * 5 + [0] * 3])
    wrapped = Fn(lambda x, m, net: tuple(net(x, m, return_dict=False)), net=net)
    return Spec(wrapped, [(tokens(2, 8), mask)])


def language(kind: str, config: str, **sizes: int) -> Spec:
    net = pretrained(kind, config, vocab_size=100, **sizes)
    return Spec(Fn(lambda x, net: net(x, use_cache=False).logits, net=net), [(tokens(1, 8),)])


GPT2 = {"n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 4}
LLAMA = {"max_position_embeddings": 32, "num_key_value_heads": 2, **SIZES}
model("gpt2")(lambda: language("GPT2LMHeadModel", "GPT2Config", **GPT2))
model("llama")(lambda: language("LlamaForCausalLM", "LlamaConfig", **LLAMA))


@model("whisper_encoder")
def whisper_encoder() -> Spec:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    layers = {"encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 64}
    net = WhisperEncoder(
        WhisperConfig(num_mel_bins=8, d_model=32, max_source_positions=16, **layers)
    )
    wrapped = Fn(lambda x, net: net(x).last_hidden_state, net=net)
    return Spec(wrapped, [(torch.randn(1, 8, 32),)])


# ---- Dynamic shapes, control flow, symbolic integers ------------------------------------------


@model("dynamic_batch")
def dynamic_batch() -> Spec:
    net = nn.Sequential(
        conv_bn(3, 4), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(64, 10), nn.Softmax(-1)
    )
    calls = [(torch.randn(n, 3, 8, 8),) for n in (3, 8, 1, 5)]
    return Spec(net, calls, {"input": {0: torch.export.Dim("batch", min=1, max=8)}})


class CausalAttention(nn.Module):
    """Attention with mask and positions that depend on the sequence length of the call."""

    def __init__(self, dim: int, heads: int, longest: int) -> None:
        super().__init__()
        self.heads = heads
        self.position = nn.Embedding(longest, dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        x = x + self.position(torch.arange(n))
        qkv = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        mask = torch.ones(n, n, dtype=torch.bool).tril()
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, d))


@model("dynamic_seq")
def dynamic_seq() -> Spec:
    calls = [(torch.randn(2, n, 16),) for n in (4, 12, 2, 7)]
    shapes = {"x": {1: torch.export.Dim("n", min=2, max=12)}}
    return Spec(CausalAttention(16, 2, 12), calls, shapes)


@model("symbolic")
def symbolic() -> Spec:
    """Compute integers from shapes, return and use them, for the prim operators."""

    def run(x: Tensor) -> Any:
        n = x.shape[0]
        half = n // 2
        y = x.reshape(n * 2, 2) * n + (n - half) / 3
        return y, torch.full((n * 2 + 1,), 1.5), torch.arange(half + 1), n, n % 3

    calls = [(torch.randn(n, 4),) for n in (6, 10, 3)]
    return Spec(Fn(run), calls, (({0: torch.export.Dim("n", min=2, max=10)},),))


@model("data_dependent")
def data_dependent() -> Spec:
    """Compute sizes that are known only at run time, from item() and from nonzero()."""

    def run(x: Tensor, n: Tensor) -> Any:
        size = n.item()
        torch._check(size >= 1)
        torch._check(size <= 8)
        return torch.ones(size) * 2, torch.nonzero(x)

    calls = [(torch.tensor(m), torch.tensor(n)) for m, n in (([0, 1, 1], 3), ([1, 1, 1], 8))]
    return Spec(Fn(run), calls)


@model("cond")
def cond() -> Spec:
    def run(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() * 2, (x,))

    return Spec(Fn(run), [(torch.full((2, 3), v),) for v in (0.5, -0.5, 0.25)])


@model("cond_twice")
def cond_twice() -> Spec:
    """Use two conds; in the official runtime, the second overwrites a result of the first."""

    def run(x: Tensor) -> Any:
        first = torch.cond(
            x.sum() > 0, lambda x: (x.sin(), x + 1), lambda x: (x.cos(), x * 2), (x,)
        )
        second = torch.cond(
            x.shape[0] > 4, lambda a: a.exp(), lambda a: a.abs().sqrt(), (first[0],)
        )
        return second, first[1]

    calls = [(torch.full((n, 3), v),) for n, v in ((5, 0.5), (5, -0.5), (3, 0.5), (4, -1.0))]
    return Spec(Fn(run), calls, (({0: torch.export.Dim("n", min=2, max=8)},),))


@model("map_loop")
def map_loop() -> Spec:
    from torch._higher_order_ops.map import map as torch_map

    def run(xs: Tensor, y: Tensor) -> Tensor:
        return torch_map(lambda x, y: (x * y).sum(0) + y, xs, y)

    calls = [(torch.randn(4, 2, 3), torch.randn(2, 3)) for _ in range(2)]
    return Spec(Fn(run), calls)


@model("scalar_inputs")
def scalar_inputs() -> Spec:
    """Use Python values among the inputs and outputs, besides tensors."""

    def run(x: Tensor, n: int, scale: float, flag: bool) -> Any:
        return x * n + scale, n + 1, [x + 1 if flag else x, x - 1]

    return Spec(Fn(run), [(torch.randn(3), 3, 0.5, True)])


# ---- State and several methods ----------------------------------------------------------------


class KvCache(nn.Module):
    """One attention head over a cache that `update` writes at the given position."""

    def __init__(self, update: Callable[[Tensor, Tensor, Tensor], None], dim: int = 8) -> None:
        super().__init__()
        self.update = update
        self.qkv = nn.Linear(dim, 3 * dim)
        self.register_buffer("keys", torch.zeros(1, 6, dim))
        self.register_buffer("values", torch.zeros(1, 6, dim))

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        self.update(self.keys, position, k)
        self.update(self.values, position, v)
        mask = torch.arange(6) <= position
        return F.scaled_dot_product_attention(q, self.keys, self.values, mask[None, None, :])


def _index_copy(cache: Tensor, position: Tensor, value: Tensor) -> None:
    cache.index_copy_(1, position, value)


def _index_put(cache: Tensor, position: Tensor, value: Tensor) -> None:
    cache[:, position] = value


def _slice(cache: Tensor, position: Tensor, value: Tensor) -> None:
    start = position.item()
    torch._check(start >= 0)
    torch._check(start < cache.shape[1])
    cache.narrow(1, start, 1).copy_(value)


def kv_cache(update: Callable[[Tensor, Tensor, Tensor], None]) -> Spec:
    net = KvCache(update)
    return Spec(net, [(torch.randn(1, 1, 8), torch.tensor([i])) for i in (0, 1, 2, 3, 1)])


model("kv_cache_index_copy")(lambda: kv_cache(_index_copy))
model("kv_cache_index_put")(lambda: kv_cache(_index_put))
model("kv_cache_slice")(lambda: kv_cache(_slice))
model("accumulator")(lambda: Spec(Accumulator(4, factor=1.0), drawn(4, 4)))


@model("shared_state")
def shared_state() -> Zoo:
    """Return two methods over one buffer, planned in one arena."""
    net = Accumulator(4, factor=1.0)
    methods = {name: Spec(net, drawn(2, 4)) for name in ("left", "right")}
    return Zoo(methods, planning={"share_mutable_buffers": True})


@model("io_unplanned")
def io_unplanned() -> Zoo:
    """Use inputs and outputs without planned memory."""
    net = nn.Sequential(nn.Linear(8, 8), nn.Sigmoid())
    planning = {"alloc_graph_input": False, "alloc_graph_output": False}
    return Zoo({"forward": Spec(net, drawn(2, 2, 8))}, {}, planning)


class Decoder(nn.Module):
    """One step of a recurrent decoder with attention over the encoded sequence."""

    def __init__(self, dim: int, vocabulary: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.head = nn.Linear(2 * dim, vocabulary)

    def forward(self, token: Tensor, state: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        state = self.cell(self.embed(token), state)
        weights = torch.softmax((memory @ state[:, :, None]).squeeze(-1), -1)
        context = (weights[:, None] @ memory).squeeze(1)
        return self.head(torch.cat([state, context], -1)).argmax(-1), state


@model("encoder_decoder")
def encoder_decoder() -> Zoo:
    encoder = nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 16), nn.SiLU())
    decode = (tokens(1, vocabulary=50), torch.randn(1, 16), torch.randn(1, 6, 16))
    constants = {
        "get_bos_id": 1,
        "get_temperature": 0.7,
        "get_name": "pair",
        "use_cache": True,
        "get_sizes": [2, 16],
        "get_table": torch.arange(6.0).reshape(2, 3),
    }
    methods = {
        "encode": Spec(encoder, [(tokens(1, 6, vocabulary=50),)]),
        "decode": Spec(Decoder(16, 50), [decode]),
    }
    return Zoo(methods, constants)
