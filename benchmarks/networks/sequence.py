"""Perceptrons, transformers, recurrent nets and sound."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.models.blocks import Fn

Made = tuple[nn.Module, tuple[Tensor, ...]]


def mlp(width: int) -> Made:
    net = nn.Sequential(
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, 10),
        nn.Softmax(-1),
    )
    return net, (torch.randn(1, width),)


def bert(length: int = 128) -> Made:
    from transformers import BertConfig, BertModel

    net = BertModel(
        BertConfig(
            hidden_size=256, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=4
        )
    )
    ids, mask = torch.randint(0, 30000, (1, length)), torch.ones(1, length, dtype=torch.int64)
    return Fn(lambda x, m, net: net(x, m, return_dict=False)[0], net=net), (ids, mask)


def gpt2(length: int) -> Made:
    from transformers import GPT2Config, GPT2LMHeadModel

    net = GPT2LMHeadModel(
        GPT2Config(vocab_size=8192, n_positions=256, n_embd=256, n_layer=6, n_head=4)
    )
    wrapped = Fn(lambda x, net: net(x, use_cache=False).logits, net=net)
    return wrapped, (torch.randint(0, 8192, (1, length)),)


def llama(length: int) -> Made:
    from transformers import LlamaConfig, LlamaForCausalLM

    net = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=4096,
            hidden_size=288,
            intermediate_size=768,
            num_hidden_layers=6,
            num_attention_heads=6,
            num_key_value_heads=6,
            max_position_embeddings=256,
        )
    )
    return Fn(lambda x, net: net(x, use_cache=False).logits, net=net), (
        torch.randint(0, 4096, (1, length)),
    )


def t5_encoder(length: int) -> Made:
    from transformers import T5Config, T5EncoderModel

    net = T5EncoderModel(
        T5Config(vocab_size=8192, d_model=256, d_kv=32, d_ff=1024, num_layers=4, num_heads=8)
    )
    return Fn(lambda x, net: net(x).last_hidden_state, net=net), (
        torch.randint(0, 8192, (1, length)),
    )


def whisper_encoder(frames: int) -> Made:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    net = WhisperEncoder(
        WhisperConfig(
            d_model=256,
            encoder_layers=4,
            encoder_attention_heads=4,
            encoder_ffn_dim=1024,
            max_source_positions=frames // 2,
        )
    )
    return Fn(lambda x, net: net(x).last_hidden_state, net=net), (torch.randn(1, 80, frames),)


def wav2vec2(samples: int) -> Made:
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    net = Wav2Vec2Model(
        Wav2Vec2Config(
            hidden_size=256,
            num_hidden_layers=4,
            num_attention_heads=4,
            intermediate_size=1024,
            conv_dim=(256,) * 7,
            num_conv_pos_embeddings=64,
            num_conv_pos_embedding_groups=16,
        )
    )
    nn.utils.parametrize.remove_parametrizations(net.encoder.pos_conv_embed.conv, "weight")
    return Fn(lambda x, net: net(x).last_hidden_state, net=net), (torch.randn(1, samples),)


class ConformerBlock(nn.Module):
    """Two half perceptrons around attention and a gated depthwise convolution."""

    def __init__(self, width: int, heads: int = 4, kernel: int = 31) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = (
            nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, 4 * width),
                nn.SiLU(),
                nn.Linear(4 * width, width),
            )
            for _ in range(2)
        )
        self.norm, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.gate = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GLU())
        self.mix = nn.Sequential(
            nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width),
            nn.BatchNorm1d(width),
            nn.SiLU(),
            nn.Conv1d(width, width, 1),
        )
        self.last = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        n, t, c = x.shape
        x = x + 0.5 * self.first(x)
        qkv = self.qkv(self.norm(x)).view(n, t, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).reshape(n, t, c))
        x = x + self.mix(self.gate(x).transpose(1, 2)).transpose(1, 2)
        return self.last(x + 0.5 * self.second(x))


def conformer(frames: int) -> Made:
    blocks = [ConformerBlock(144) for _ in range(4)]
    return nn.Sequential(nn.Linear(80, 144), *blocks), (torch.randn(1, frames, 80),)


def recurrent(cell: type[nn.LSTM] | type[nn.GRU], length: int = 16) -> Made:
    net = cell(32, 64, batch_first=True)
    return Fn(lambda x, net: net(x)[0], net=net), (torch.randn(1, length, 32),)


def lstm(length: int) -> Made:
    return recurrent(nn.LSTM, length)


def gru(length: int) -> Made:
    return recurrent(nn.GRU, length)


class Causal(nn.Module):
    """A residual block of two dilated convolutions that see the past only."""

    def __init__(self, cin: int, cout: int, dilation: int, kernel: int = 3) -> None:
        super().__init__()
        self.past = (kernel - 1) * dilation
        self.first = nn.Conv1d(cin, cout, kernel, dilation=dilation)
        self.second = nn.Conv1d(cout, cout, kernel, dilation=dilation)
        self.shortcut = nn.Conv1d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(F.pad(x, (self.past, 0))).relu()
        return (self.second(F.pad(y, (self.past, 0))).relu() + self.shortcut(x)).relu()


def tcn(length: int) -> Made:
    blocks = [Causal(64 if i else 16, 64, 1 << i) for i in range(6)]
    return nn.Sequential(*blocks, nn.Conv1d(64, 10, 1)), (torch.randn(1, 16, length),)
