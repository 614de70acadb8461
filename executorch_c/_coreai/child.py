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

from executorch_c._coreai.messages import receive, send

MAX_MESSAGE = 1000
"""Maximum number of characters of an error's message."""


class Models:
    """The loaded models, by number."""

    def __init__(self) -> None:
        self.models: dict[int, tuple[AsyncExitStack, dict[str, Any]]] = {}

    async def load(self, number: int, path: str) -> list[dict[str, Any]]:
        """Load an asset and return its functions: names, inputs, outputs and states."""
        from coreai.authoring.asset import AIModelAsset

        stack = AsyncExitStack()
        asset = AIModelAsset.load(Path(path))
        model = await stack.enter_async_context(asset.executable())
        functions = {name: model.load_function(name) for name in model.function_names}
        self.models[number] = (stack, functions)
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

    async def run(self, number: int, name: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """Return the outputs of a function, in its order."""
        from coreai.runtime import NDArray

        function = self.models[number][1][name]
        form = function.desc
        inputs = {one: NDArray(x) for one, x in zip(form.input_names, arrays, strict=True)}
        outputs = await function(inputs)
        return [np.array(outputs[one].numpy(), order="C") for one in form.output_names]

    async def unload(self, number: int) -> None:
        """Free a model."""
        if number in self.models:
            await self.models.pop(number)[0].aclose()


async def answer(models: Models, request: dict[str, Any], arrays: list[np.ndarray]) -> Any:
    """Return the header and the arrays of the answer to a message."""
    number, results = int(request["model"]), []
    reply: dict[str, Any] = {}
    try:
        if request["do"] == "load":
            reply["functions"] = await models.load(number, request["path"])
        elif request["do"] == "run":
            results = await models.run(number, request["function"], arrays)
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
