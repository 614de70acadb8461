"""Small programs of several methods: images and text; an encoder with a text decoder."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests import exports, kept
from tests.llm import small_llm
from tests.llm.small_llm import CONTEXT, DIM, LONGEST, Decoder, constants

SIDE, PATCHES, FRAMES, MELS = 8, 4, 12, 6


class Body(torch.nn.Module):
    """The decoder of small_llm after its embedding."""

    def __init__(self, embeds: bool) -> None:
        super().__init__()
        self.inner, self.embeds = Decoder("position", every=True), embeds
        self.cross = torch.nn.Linear(DIM, DIM)

    def forward(self, first: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        pos = rest[-1]
        start = pos[0].item()
        torch._check(start >= 0)
        torch._check(start < CONTEXT)
        x = first if self.embeds else self.inner.embed(first)
        if len(rest) == 2:
            x = x + self.cross(rest[0].mean(1, keepdim=True))
        for layer in self.inner.layers:
            x = x + layer(torch.nn.functional.rms_norm(x, (DIM,)), start)
        return self.inner.head(torch.nn.functional.rms_norm(x, (DIM,)))


class Image(torch.nn.Module):
    """An encoder of 3 x 8 x 8 pixels to 4 embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = torch.nn.Conv2d(3, DIM, 4, stride=4)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.patch(pixels).flatten(2).transpose(1, 2)


class Speech(torch.nn.Module):
    """An encoder of 6 x 12 log-mel features to 12 states."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(MELS, DIM)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.inner(features.transpose(1, 2))


def modules(kind: str) -> dict[str, torch.nn.Module]:
    """Return the methods of a program as modules with equal weights each time."""
    torch.manual_seed(0)
    if kind == "speech":
        return {"encoder": Speech().eval(), "text_decoder": Body(False).eval()}
    body = Body(True).eval()
    return {
        "vision_encoder": Image().eval(),
        "token_embedding": body.inner.embed,
        "text_decoder": body,
    }


def _write(kind: str, path: Path) -> None:
    path.write_bytes(lower(kind, modules(kind)))


def lower(kind: str, model: dict[str, torch.nn.Module], *partitioners: Any, **more: Any) -> bytes:
    """Return the program of modules. `more`: further constants."""
    n = torch.export.Dim("n", min=1, max=LONGEST)
    ids, at = torch.zeros(1, 4, dtype=torch.int64), torch.arange(4)
    inputs: dict[str, tuple[Any, Any]] = {
        "vision_encoder": ((torch.zeros(1, 3, SIDE, SIDE),), None),
        "token_embedding": ((ids,), ({1: n},)),
        "encoder": ((torch.zeros(1, MELS, FRAMES),), None),
        "text_decoder": ((torch.zeros(1, 4, DIM), at), ({1: n}, ({0: n},))),
    }
    if kind == "speech":
        one = (ids[:, :1], torch.zeros(1, FRAMES, DIM), at[:1])
        inputs["text_decoder"] = (one, None)
    with torch.no_grad():
        programs = {
            name: torch.export.export(module, inputs[name][0], dynamic_shapes=inputs[name][1])
            for name, module in model.items()
        }
    more |= dict(decoder_start_token_id=1) if kind == "speech" else dict(vision_token_id=9)
    methods = constants(**more)
    return exports.lowered(programs, partitioner=[*partitioners], constant_methods=methods)


def program(kind: str) -> Path:
    """Return the path of a program, "image" or "speech", made once."""
    sources = (Path(__file__), Path(small_llm.__file__))
    name = kept.digest(*sources, kind, packages=("torch", "executorch"))
    return kept.file(f"llm/{kind}-{name}.pte", lambda path: _write(kind, path))


@torch.no_grad()
def eager_image(parts: list[Any]) -> np.ndarray:
    """Return eager's logits after the last part: arrays are images, lists are ids."""
    model = modules("image")
    embeds = [
        model["vision_encoder"](torch.from_numpy(part))
        if isinstance(part, np.ndarray)
        else model["token_embedding"](torch.tensor([part]))
        for part in parts
    ]
    whole = torch.cat(embeds, 1)
    rows = [
        model["text_decoder"](whole[:, i : i + 1], torch.tensor([i])) for i in range(whole.shape[1])
    ]
    return rows[-1][0, -1].numpy()


@torch.no_grad()
def eager_speech(features: np.ndarray, tokens: list[int]) -> np.ndarray:
    """Return eager's logits after the last token."""
    model = modules("speech")
    hidden = model["encoder"](torch.from_numpy(features))
    rows = [
        model["text_decoder"](torch.tensor([[t]]), hidden, torch.tensor([i]))
        for i, t in enumerate(tokens)
    ]
    return rows[-1][0, -1].numpy()
