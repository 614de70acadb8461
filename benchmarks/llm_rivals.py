"""Runtimes of language models, and the process that measures one of them.

`python -m benchmarks.llm_rivals NAME FILE THREADS STARTED` loads a file and generates two tokens,
then a whole generation for each line of stdin; it prints seconds of each prefilled and each decoded
token as JSON. A rival's Python may lack executorch_c: nothing is imported before it is measured.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROMPT, NEW = 128, 48
FIRST = 16
"""Tokens of the first prompt: a question."""


@dataclass(frozen=True)
class Times:
    """Seconds of one generation."""

    prefill: float
    decode: float
    new: int = NEW


Session = Callable[[list[int], int], Times]
"""Starts anew: processes a prompt and generates some tokens."""


def ours(path: str, threads: int) -> Session:
    from executorch_c.llm import TextRunner

    runner = TextRunner(path, num_threads=threads)

    def run(prompt: list[int], new: int) -> Times:
        start = time.perf_counter()
        runner.reset()
        logits = runner.prefill(prompt)
        token = int(logits.argmax())
        first = time.perf_counter()
        for _ in range(new - 1):
            token = int(runner.step(token).argmax())
        return Times(first - start, time.perf_counter() - first, new - 1)

    return run


def official(path: str, threads: int) -> Session:
    """The official runner. It counts milliseconds, and its prompts are texts."""
    import executorch.extension.llm.custom_ops.custom_ops
    import executorch.kernels.quantized  # noqa: F401
    from executorch.extension.llm.runner import GenerationConfig, TextLLMRunner
    from executorch.extension.pybindings import portable_lib

    portable_lib._unsafe_reset_threadpool(threads)
    runner = TextLLMRunner(path, str(Path(path).with_name("tokenizer.json")))

    def run(prompt: list[int], new: int) -> Times:
        text = "".join(chr(33 + token % 94) for token in prompt)
        config = GenerationConfig(echo=False, max_new_tokens=new, temperature=0.0)
        reply: list[Any] = []
        times = [time.perf_counter()]
        runner.reset()
        runner.generate(text, config, lambda _: times.append(time.perf_counter()), reply.append)
        assert reply[-1].num_prompt_tokens == len(prompt)
        count = len(times) - 2
        return Times(times[1] - times[0], times[-1] - times[1], max(count, 1))

    return run


def official_loop(path: str, threads: int) -> Session:
    """The loop of official examples, which get logits in Python."""
    import executorch.extension.llm.custom_ops.custom_ops
    import executorch.kernels.quantized  # noqa: F401
    import torch
    from executorch.extension.pybindings import portable_lib

    portable_lib._unsafe_reset_threadpool(threads)
    torch.set_num_threads(1)  # its pool waits while the runtime's own works
    module = portable_lib._load_for_executorch(path)

    def call(ids: list[int], at: int) -> int:
        return int(module.forward([torch.tensor([ids]), torch.tensor([at])])[0].argmax())

    def run(prompt: list[int], new: int) -> Times:
        start = time.perf_counter()
        token = call(prompt, 0)
        first = time.perf_counter()
        for i in range(new - 1):
            token = call([token], len(prompt) + i)
        return Times(first - start, time.perf_counter() - first, new - 1)

    return run


def llama_cpp(path: str, threads: int) -> Session:
    """llama.cpp in this process; the times are its own."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel = path, 512, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.warmup, params.verbosity, params.n_gpu_layers = False, -1, 0
    server = xllamacpp.Server(params)

    def run(prompt: list[int], new: int) -> Times:
        request = {
            "prompt": prompt,
            "n_predict": new,
            "temperature": 0,
            "ignore_eos": True,
            "cache_prompt": False,
        }
        reply = server.handle_completions(request)
        times = (reply if isinstance(reply, dict) else json.loads(reply))["timings"]
        assert times["prompt_n"] == len(prompt)
        return Times(times["prompt_ms"] / 1e3, times["predicted_ms"] / 1e3, times["predicted_n"])

    return run


def genai(path: str, threads: int) -> Session:
    import numpy as np
    import onnxruntime_genai

    config = Path(path, "genai_config.json")
    options = json.loads(config.read_text())
    options["model"]["decoder"].setdefault("session_options", {})["intra_op_num_threads"] = threads
    config.write_text(json.dumps(options))
    model = onnxruntime_genai.Model(path)

    def run(prompt: list[int], new: int) -> Times:
        params = onnxruntime_genai.GeneratorParams(model)
        params.set_search_options(max_length=512, min_length=512, do_sample=False)
        generator = onnxruntime_genai.Generator(model, params)
        start = time.perf_counter()
        generator.append_tokens(np.array(prompt, np.int32))
        generator.generate_next_token()
        first = time.perf_counter()
        for _ in range(new - 1):
            generator.generate_next_token()
        return Times(first - start, time.perf_counter() - first, new - 1)

    return run


@dataclass(frozen=True)
class Rival:
    """A runtime: the kind of its files (`llm_models.FORMATS`), and the packages that it needs."""

    title: str
    kind: str
    load: Callable[[str, int], Session]
    package: str = ""
    install: str = ""


RIVALS = {
    "ours": Rival("executorch_c", "pte", ours),
    "official": Rival("official runner", "pte", official, "executorch", "executorch"),
    "official_loop": Rival("official, step loop", "pte", official_loop, "executorch", "executorch"),
    "llama_cpp": Rival("llama.cpp", "gguf", llama_cpp, "xllamacpp", "xllamacpp gguf"),
    "genai": Rival("onnxruntime-genai", "genai", genai, "onnxruntime_genai", "onnxruntime-genai"),
}


def peak_memory() -> int:
    """Return the largest resident memory of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def main() -> None:
    """Print the figures of the first tokens, then those of a generation for each line of stdin."""
    name, path, threads, started = sys.argv[1:5]
    run = RIVALS[name].load(path, int(threads))
    run(list(range(300, 300 + FIRST)), 2)
    report = {"first": time.time() - float(started), "memory": peak_memory()}
    print("\n" + json.dumps(report), flush=True)
    for k, _ in enumerate(sys.stdin):
        times = run([300 + (7 * i + k) % 31000 for i in range(PROMPT)], NEW)
        report = {"prefill": times.prefill / PROMPT, "decode": times.decode / times.new}
        print("\n" + json.dumps(report | {"memory": peak_memory()}), flush=True)


if __name__ == "__main__":
    main()
