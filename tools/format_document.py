"""Prints docs/format.md: the files of a snapshot, from the table of their layouts.

Run `python -m tools.format_document > docs/format.md`.
"""

from __future__ import annotations

from collections.abc import Iterator

from service.storage import layouts
from service.storage.container import ALIGNMENT, MAGIC, SUFFIX, Layout
from service.storage.layouts import FILES

NAMES = {
    id(layout): name.replace("_", " ").capitalize()
    for name, layout in vars(layouts).items()
    if isinstance(layout, Layout)
}
HEAD = f"""\
# Which files does a snapshot have?

<!-- Written by `python -m tools.format_document`; edit `service/storage/layouts.py`. -->

A snapshot is a folder of JSON files and of containers, whose names end in `{SUFFIX}`. A container
(`service/storage/container.py:open_arrays`) has the arrays of one structure, without pickles, and
is mapped into memory. All numbers are little-endian. An ordinal is the position of a service in the
listing; documents are those of the index: the endpoints in listing order, then listed resources
that are no endpoint of their service and services without either. A posting is
`document << 24 | impact`.

A container is:

1. the {len(MAGIC)} bytes `{MAGIC!r}`;
2. the size of the header, a uint32;
3. the header, padded with blanks: JSON, a list with the name, the type as NumPy writes it, the
   shape and the offset of each array;
4. the arrays in the order of their layout, each at a multiple of {ALIGNMENT} bytes.

Readers and writers take layouts from `service/storage/layouts.py`, and refuse other names, types
and shapes. A dimension that occurs twice in a layout has one size.

## Files

`manifest.json` is written last and has the size and the SHA-256 of every other file.

| file | layout | content |
|---|---|---|
"""


def document() -> str:
    """Return the text of docs/format.md."""
    rows = (
        f"| `{path}` | {_link(entry.layout)} | {entry.text} |\n" for path, entry in FILES.items()
    )
    used = {id(entry.layout): entry.layout for entry in FILES.values() if entry.layout}
    sections = ("".join(_section(used[each])) for each in NAMES if each in used)
    return HEAD + "".join(rows) + "".join(sections)


def _link(layout: Layout | None) -> str:
    if layout is None:
        return ""
    name = NAMES[id(layout)]
    return f"[{name}](#{name.lower().replace(' ', '-')})"


def _section(layout: Layout) -> Iterator[str]:
    yield f"\n## {NAMES[id(layout)]}\n\n{layout.text}\n\n"
    yield "| array | type | shape | content |\n|---|---|---|---|\n"
    for name, array in layout.arrays.items():
        kinds = ", ".join(f"`{kind.lstrip('|')}`" for kind in array.dtype.split())
        shape = array.shape.replace("+", " + ").replace(",", ", ")
        yield f"| `{name}` | {kinds} | {shape} | {array.text.replace('|', chr(92) + '|')} |\n"


if __name__ == "__main__":
    print(document(), end="")
