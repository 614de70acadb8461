"""Headless Chromium, driven over WebDriver by the standard library.

`Browser` needs the programs chromium and chromedriver (Debian: chromium, chromium-driver);
`missing()` says which is not installed.

    with Browser() as browser:
        browser.open(path)
        browser.run("return document.title")
"""

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
"""A sandbox needs privileges that a container's root does not have."""
START_SECONDS, CALL_SECONDS = 60, 120
KEYS = {"Enter": "\ue007", "ArrowDown": "\ue015", "ArrowUp": "\ue013", "Escape": "\ue00c"}


def chromium() -> str | None:
    return next(filter(None, map(shutil.which, CHROMIUM)), None)


def missing() -> str:
    """Return which programs are not installed; empty if both are."""
    names = {"chromium": chromium(), "chromedriver": shutil.which("chromedriver")}
    absent = [name for name, path in names.items() if path is None]
    return f"{' and '.join(absent)} not installed (Debian: chromium, chromium-driver)" * bool(
        absent
    )


class Browser:
    """A window of headless Chromium."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        self.size = width, height

    def __enter__(self) -> "Browser":
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        log = os.path.join(self.folder.name, "log")
        with open(log, "w") as out:
            self.driver = subprocess.Popen(
                [str(shutil.which("chromedriver")), "--port=0"], stdout=out, stderr=out
            )
        try:
            port = self._port(log)
            self.base = f"http://localhost:{port}/session"
            arguments = [*OPTIONS, f"--user-data-dir={self.folder.name}/profile"]
            chrome = {"binary": chromium(), "args": arguments}
            wanted = {"browserName": "chrome", "goog:chromeOptions": chrome}
            wanted["goog:loggingPrefs"] = {"browser": "ALL"}
            answer = self._send(self.base, {"capabilities": {"alwaysMatch": wanted}})
            self.base += "/" + answer["sessionId"]
            self.resize(*self.size)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _port(self, log: str) -> str:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.driver.poll() is None:
            started = re.search(r"successfully on port (\d+)\.", Path(log).read_text())
            if started:
                return started[1]
            time.sleep(0.02)
        raise RuntimeError(f"chromedriver did not start: {Path(log).read_text()}")

    def __exit__(self, *_: object) -> None:
        try:
            if self.base.count("/") > 3:
                self._send(self.base, None, "DELETE")
        except (AttributeError, OSError):
            pass
        self.driver.terminate()
        self.driver.wait()
        self.folder.cleanup()

    def _send(self, url: str, body: object, method: str = "POST") -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            url, data, {"Content-Type": "application/json"}, method=method
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=CALL_SECONDS) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def call(self, command: str, **arguments: Any) -> Any:
        """Send a command of the DevTools protocol."""
        return self._send(f"{self.base}/goog/cdp/execute", {"cmd": command, "params": arguments})

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def prefer(self, scheme: str) -> None:
        """Set the colour scheme, "dark" or "light"."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def open(self, path: str | os.PathLike[str]) -> None:
        self._send(f"{self.base}/url", {"url": Path(path).resolve().as_uri()})

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a function's body in the page and return its result; promises are awaited."""
        return self._send(f"{self.base}/execute/sync", {"script": script, "args": list(arguments)})

    def press(self, *keys: str) -> None:
        """Press keys one after the other, by their names in `KEYS` or as characters."""
        actions = [
            {"type": kind, "value": KEYS.get(key, key)}
            for key in keys
            for kind in ("keyDown", "keyUp")
        ]
        source = {"type": "key", "id": "keyboard", "actions": actions}
        self._send(f"{self.base}/actions", {"actions": [source]})

    def pointer(self, *actions: dict[str, Any]) -> None:
        """Do actions of WebDriver's pointer: {"type": "pointerMove", "x": 10, "y": 10}."""
        source = {"type": "pointer", "id": "mouse", "actions": list(actions)}
        self._send(f"{self.base}/actions", {"actions": [source]})

    def click(self, x: int, y: int) -> None:
        where = {"type": "pointerMove", "x": x, "y": y, "duration": 0}
        self.pointer(where, *({"type": f"pointer{way}", "button": 0} for way in ("Down", "Up")))

    def errors(self) -> list[str]:
        """Return the messages of the console since the last call: errors, refusals of a policy."""
        entries = self._send(f"{self.base}/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def screenshot(self, path: str | os.PathLike[str]) -> None:
        Path(path).write_bytes(base64.b64decode(self._send(f"{self.base}/screenshot", None, "GET")))
