"""CoreAIBackend: payloads with damaged manifests and files. What reaches the engine has the hash of
the manifest, and names inside the asset's folder; the rest is one exception of three types."""

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from executorch_c._core import InvalidProgramError, NotFoundError, NotSupportedError
from executorch_c._coreai import payload
from tests.backends.test_coreai import files, manifest
from tests.backends.test_coreai_answers import damaged_bytes, mutated
from tests.fuzz.readers import check_cases

LONGEST = 1000
"""Characters of a fact or a message."""
STRINGS = (
    *("sidecar", "inline", "aot_compiled_inline", "../x", "model.aimodel/../x", "/", "a\\b", "."),
    *("\x1b[2J", "model.aimodel/x\n", "\ud800", "0" * 64, "f" * 63, "é", "x" * 5000),
)


def changed(value: Any, pick: random.Random) -> Any:
    """Return JSON with a value changed, doubled or missing, or a name of another kind."""
    if isinstance(value, dict) and pick.random() < 0.4:
        return {**value, pick.choice([*value, "archs"]): pick.choice(STRINGS)}
    if isinstance(value, dict) and pick.random() < 0.2:
        names = [pick.choice(STRINGS) for _ in range(pick.randrange(70))]
        return {**value, "files": names, "archs": dict.fromkeys(names)}
    return mutated(value, pick)


def damaged(pick: random.Random) -> tuple[bytes, dict[str, bytes]]:
    """Return a payload and its named data."""
    asset = files()
    for name in [*asset]:
        if pick.random() < 0.15:
            asset[name] = damaged_bytes(asset[name], pick)
    if pick.random() < 0.2:
        about = {name: pick.choice(STRINGS) for name in ("producer", "assetVersion")}
        asset[payload.METADATA] = json.dumps(about).encode()
    if pick.random() < 0.3:  # hashes that are right, of a program that is damaged
        asset[payload.HASH] = hashlib.sha256(asset[payload.PROGRAM]).digest()
    if pick.random() < 0.3:
        asset[pick.choice(STRINGS)] = b"other"
    fields: Any = manifest(asset)
    folder = f"coreai/{fields['hash']}"
    for _ in range(pick.choice((0, 0, 1, 1, 2, 3))):
        fields = changed(fields, pick) if isinstance(fields, dict) else fields
    text = json.dumps(fields).encode("utf-8", "surrogatepass")
    if pick.random() < 0.2:
        text = damaged_bytes(text, pick)
    named = {f"{folder}/{name}": data for name, data in asset.items() if pick.random() < 0.97}
    return text, named


def cases(folder: Path) -> Callable[[int], bool]:
    """Return a function that reads the payload of a number, and returns if an engine would get
    it."""

    def case(number: int) -> bool:
        text, named = damaged(random.Random(number))
        for name, fact in payload.facts(text, named.get):
            assert name and len(name) + len(fact) < LONGEST, name
        try:
            this = payload.manifest(text)
            read = payload.read(this, named.get, str(folder))
        except (InvalidProgramError, NotFoundError, NotSupportedError) as error:
            assert 0 < len(str(error)) < LONGEST and str(error).isprintable(), str(error)
            return False
        assert hashlib.sha256(read[payload.PROGRAM]).hexdigest() == this.hash
        assert read[payload.PROGRAM].startswith(payload.MAGIC)
        for name in read:
            parts = Path(name).parts
            assert parts[0] == payload.ASSET and len(parts) > 1 and ".." not in parts, name
        return True

    return case


def test_damaged_payloads(tmp_path: Path) -> None:
    check_cases(cases(tmp_path), 3000)
