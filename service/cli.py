"""Command lines: help that ends with examples, and errors that say what to run instead."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib import metadata
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """A parser of one command; `examples` are whole commands, the simplest first."""

    def __init__(
        self, *, description: str = "", examples: Sequence[str] = (), **settings: Any
    ) -> None:
        super().__init__(
            description=textwrap.fill(description, shutil.get_terminal_size().columns - 2),
            epilog="\n".join(["examples:", *(f"  {example}" for example in examples)]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **settings,
        )
        self._examples = examples

    def add_version(self) -> None:
        """Add `--version`."""
        try:
            version = metadata.version("ratecard")
        except metadata.PackageNotFoundError:  # it runs from a folder
            version = "that is not installed"
        self.add_argument(
            "--version", action="version", version=f"ratecard {version}", help="say which this is"
        )

    def parse_known_args(  # type: ignore[override]  # it is overloaded, by what nobody here gives
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse as `ArgumentParser` does, but for what it would leave, which is an error here."""
        options, rest = super().parse_known_args(args, namespace)
        if rest:
            name = rest[0].partition("=")[0]
            kind = "option" if name.startswith("-") else "argument"
            self.refuse(kind, name, self._option_string_actions)
        return options, rest

    def refuse(self, kind: str, given: str, known: Iterable[str]) -> NoReturn:
        """End the program: nothing of this kind is called so; says what may have been meant."""
        near = get_close_matches(given, list(known), 1)
        meant = f"; did you mean `{near[0]}`?" if near else ""
        self.error(f"there is no {kind} `{given}` here{meant}")

    def error(self, message: str) -> NoReturn:
        """End the program with status 2, a command that works, and where to read of the others."""
        advice = [f"  for example: {example}" for example in self._examples[:1]]
        advice.append(f"  see: {self.prog} --help")
        self.exit(2, "\n".join([f"error: {message}", *advice, ""]))
