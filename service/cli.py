"""Command lines: help that ends with examples, and errors that name a command that works."""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache, partial
from importlib import metadata
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """A parser of one command; `examples` are complete commands, the simplest first."""

    def __init__(
        self, *, description: str = "", examples: Sequence[str] = (), **settings: Any
    ) -> None:
        width = shutil.get_terminal_size().columns - 2
        super().__init__(
            description=textwrap.fill(description, width),
            epilog="\n".join(["examples:", *(f"  {example}" for example in examples)]),
            formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=width),
            allow_abbrev=False,  # a new option would make the abbreviations of scripts ambiguous
            **settings,
        )
        self._examples = examples
        self.elsewhere: Mapping[str, str] = {}
        """Options that are none, and where each is written instead."""

    def add_version(self) -> None:
        """Add `--version`."""
        text = f"ratecard {version()}"
        self.add_argument("--version", action="version", version=text, help="print the version")

    def parse_known_args(  # type: ignore[override]  # overloaded for namespaces of other types
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse as `ArgumentParser` does, but end with an error for unknown arguments."""
        options, unknown = self.parse_some(args, namespace)
        if unknown:
            self.refuse_unknown(unknown[0])
        return options, unknown

    def parse_some(
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Return the options that are known, and the arguments that are not."""
        return super().parse_known_args(args, namespace)

    def refuse_unknown(self, argument: str) -> NoReturn:
        """End the program because of an argument that is unknown."""
        name = argument.partition("=")[0]
        if name in self.elsewhere:
            self.error(f"{name} is no option; write {self.elsewhere[name]}")
        kind = "option" if name.startswith("-") else "argument"
        self.refuse(kind, name, re.findall(r"(?<![\w-])--?[a-z-]+", self.format_help()))

    def refuse(self, kind: str, given: str, known: Iterable[str]) -> NoReturn:
        """End the program because nothing of this kind has this name; suggests a similar one."""
        similar = get_close_matches(given, list(known), 1)
        suggestion = f"; did you mean `{similar[0]}`?" if similar else ""
        self.error(f"there is no {kind} `{given}` here{suggestion}")

    def error(self, message: str) -> NoReturn:
        """End the program with status 2, an example, and where the help is."""
        advice = [f"  for example: {example}" for example in self._examples[:1]]
        self.end("\n".join([message, *advice, f"  see: {self.prog} --help"]))

    def end(self, message: str) -> NoReturn:
        """End the program with status 2."""
        self.exit(2, f"error: {message}\n")


@cache
def version() -> str:
    """Return the version of the installed package."""
    try:
        return metadata.version("ratecard")
    except metadata.PackageNotFoundError:  # run from a folder
        return "0"
