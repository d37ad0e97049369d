"""References within a document: local ones are followed, those to other documents never."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

MAX_POINTER = 1_000  # characters
MAX_HOPS = 16
REF = "$ref"
NOTHING: dict[str, Any] = {}


class References:
    """The references of one document."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values
        self._known: dict[str, Any] = {}
        self._external: dict[str, dict[str, Any]] = {}

    def follow(self, value: Any) -> dict[str, Any]:
        """Return the object that a value is or refers to, or an empty one.

        References to other documents are returned as they are; a cycle is an empty object. A value
        always gives the same object, so that its id is a key.
        """
        for _ in range(MAX_HOPS):
            if not isinstance(value, dict):
                return NOTHING
            pointer = value.get(REF)
            if not isinstance(pointer, str):
                return value
            if not pointer.startswith("#"):
                return self._external.setdefault(pointer, {REF: pointer[:MAX_POINTER]})
            if pointer not in self._known:
                self._known[pointer] = self._find(pointer)
            value = self._known[pointer]
        return NOTHING

    def _find(self, pointer: str) -> Any:
        """Return the value at a JSON pointer, None where there is none."""
        if len(pointer) > MAX_POINTER:
            return None
        value: Any = self._values
        for part in pointer.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict):
                value = value.get(key)
            elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
                value = value[int(key)]
            else:
                return None
        return value
