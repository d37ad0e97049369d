"""The Whoosh index over name, description and category."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct
from whoosh.index import create_in

from service.analysis import SCHEMA
from service.store import Store


class Text(Struct):
    """What is searched of a service."""

    name: str
    description: str
    category: str = ""


_decoder = msgspec.json.Decoder(Text)


def write_index(folder: Path, services: Store) -> None:
    """Index the stored services; document n is the service of ordinal n."""
    folder.mkdir()
    writer = create_in(str(folder), SCHEMA).writer(limitmb=256)
    for ordinal, text in enumerate(_texts(services)):
        writer.add_document(
            ordinal=ordinal, name=text.name, description=text.description, category=text.category
        )
    writer.commit(optimize=True)


def _texts(services: Store) -> Iterator[Text]:
    for ordinal in range(len(services)):
        yield _decoder.decode(services.text(ordinal))
