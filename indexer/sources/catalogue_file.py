"""Sources as an operator names them: on the command line."""

from __future__ import annotations

from indexer.options import Kind, SourceOptions
from indexer.text import printable


def name_source(name: str, kind: Kind | None = None) -> SourceOptions:
    """Return a source of the command line by its name, a URL or a path, with the defaults there.

    Files are believed in everything, URLs in the usage of their resources alone.
    """
    if name.lower().startswith(("http://", "https://")):
        shown = name.partition("#")[0].partition("?")[0]
        scheme, _, rest = shown.partition("//")
        host, slash, path = rest.partition("/")
        shown = f"{scheme}//{host.rpartition('@')[2]}{slash}{path}"
        return SourceOptions(name=shown, url=name, kind=kind or Kind.RESOURCES)
    return SourceOptions(name=printable(name), path=name, kind=kind, trust=1, curated=True)
