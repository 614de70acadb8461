"""The engine's process: `python -m executorch_c._coreai.child FD` answers messages of a socket.

It ends with the socket, or with the process that started it. The engine prints on standard output,
which the parent has redirected.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import socket
import sys
import threading
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np

from executorch_c._coreai import inside
from executorch_c._coreai.messages import receive, send

MAX_MESSAGE = 1000
"""Maximum number of characters of an error's message."""


class Models:
    """The loaded models, by number."""

    def __init__(self) -> None:
        self.models: dict[int, tuple[AsyncExitStack, Any, dict[str, Any]]] = {}
        self.assets: dict[int, tuple[Any, Path]] = {}

    async def load(self, number: int, path: str) -> list[dict[str, Any]]:
        """Load an asset and return its functions: names, inputs, outputs and states."""
        from coreai.authoring.asset import AIModelAsset

        stack = AsyncExitStack()
        asset = AIModelAsset.load(Path(path))
        model = await stack.enter_async_context(asset.executable())
        functions = {name: model.load_function(name) for name in model.function_names}
        self.models[number] = (stack, model, functions)
        self.assets[number] = (asset, Path(path))
        return [self.described(name, function.desc) for name, function in functions.items()]

    def described(self, name: str, form: Any) -> dict[str, Any]:
        """Return the description of a function."""

        def rows(names: list[str], of: Any) -> list[list[Any]]:
            return [[one, str(of(one).dtype), list(of(one).shape)] for one in names]

        return {
            "name": name,
            "inputs": rows(form.input_names, form.input_descriptor),
            "outputs": rows(form.output_names, form.output_descriptor),
            "states": list(form.state_names),
        }

    async def run(self, function: Any, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """Return the outputs of a function, in its order."""
        from coreai.runtime import NDArray

        form = function.desc
        inputs = {one: NDArray(x) for one, x in zip(form.input_names, arrays, strict=True)}
        outputs = await function(inputs)
        return [np.array(outputs[one].numpy(), order="C") for one in form.output_names]

    async def traced(
        self, number: int, name: str, arrays: list[np.ndarray]
    ) -> tuple[list[tuple[str, bool]], list[np.ndarray]]:
        """Return the names of the graph's nodes, with whether the engine has shown their values,
        and the values before the outputs."""
        from coreai.runtime import CompileIdentifiers, IntermediateLogger

        model = self.models[number][1]
        sources = inside.sources(model._debug_infos)
        log = inside.Values(sources)
        logger = IntermediateLogger([CompileIdentifiers(one) for one in sorted(sources)], log)
        outputs = await self.run(model.load_function(name, intermediate_logger=logger), arrays)
        nodes, _ = inside.graph(self.assets[number][0].program, name)
        values = [log.values[node.id] for node in nodes if node.id in log.values]
        return [(node.name, node.id in log.values) for node in nodes], [*values, *outputs]

    def graph(self, number: int, name: str) -> dict[str, Any]:
        """Return the nodes and the outputs of a function."""
        nodes, outputs = inside.graph(self.assets[number][0].program, name)
        return {"nodes": [(one.name, one.reads, one.dtype) for one in nodes], "outputs": outputs}

    async def unload(self, number: int) -> None:
        """Free a model."""
        if number in self.models:
            await self.models.pop(number)[0].aclose()
            shutil.rmtree(self.assets.pop(number)[1].parent, ignore_errors=True)


async def answer(models: Models, request: dict[str, Any], arrays: list[np.ndarray]) -> Any:
    """Return the header and the arrays of the answer to a message."""
    number = int(request["model"])
    results: list[np.ndarray] = []
    reply: dict[str, Any] = {}
    try:
        if request["do"] == "load":
            reply["functions"] = await models.load(number, request["path"])
        elif request["do"] == "graph":
            reply = models.graph(number, request["function"])
        elif request["do"] == "run":
            name = request["function"]
            if request["trace"]:
                reply["nodes"], results = await models.traced(number, name, arrays)
            else:
                results = await models.run(models.models[number][2][name], arrays)
        else:
            await models.unload(number)
    except Exception as error:
        reply, results = {"error": f"{type(error).__name__}: {error}"[:MAX_MESSAGE]}, []
    return reply, results


def watch(parent: int, folder: str) -> None:
    """End this process when its parent has ended, though the engine may be busy."""
    while os.getppid() == parent:
        time.sleep(1)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def main(descriptor: str, parent: str, folder: str) -> None:
    """Answer messages until the socket is closed."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    threading.Thread(target=watch, args=(int(parent), folder), daemon=True).start()
    models, loop = Models(), asyncio.new_event_loop()
    with socket.socket(fileno=int(descriptor)) as pipe:
        while True:
            try:
                request, arrays = receive(pipe)
                send(pipe, *loop.run_until_complete(answer(models, request, arrays)))
            except (EOFError, OSError):
                break
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)  # the engine must not run at the interpreter's exit


if __name__ == "__main__":
    main(*sys.argv[1:])
