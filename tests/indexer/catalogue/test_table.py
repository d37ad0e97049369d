"""The table of items: the best of each key whatever the order, and a disk that is full."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.support.running import ROOT, Json
from tests.support.sources.x402 import Feed, discover, resource

FULL = """
import resource, sys
from pathlib import Path
from indexer.catalogue.table import open_table
from indexer.errors import IndexerError
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
try:
    with open_table(Path(sys.argv[1])) as table:
        for _ in range(40):
            table.put_service(bytes(2**20), b"")
except IndexerError as error:
    sys.exit(str(error))
"""

items = st.lists(
    st.builds(
        lambda path, text, moment: resource(
            f"https://a.example/{path}", description=text, lastUpdated=moment
        ),
        st.integers(0, 2),
        st.sampled_from(["Rain", "Sun", ""]),
        st.sampled_from([None, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]),
    ),
    max_size=8,
)


def kept(records: list[Json]) -> list[bytes]:
    """Return the texts of the items of one source that stay."""
    table = discover([Feed(records)]).table
    return sorted(table.text(row.number or 0) for row in table.rows("a.example"))


@given(items, st.data())
def test_the_same_items_of_a_source_stay_in_any_order(
    records: list[Json], data: st.DataObject
) -> None:
    texts = kept(records)
    assert texts == kept(data.draw(st.permutations(records)))
    assert len(texts) == len({record["resource"] for record in records})


def test_a_full_disk_ends_the_build_with_an_error(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("the items of the sources cannot be kept on disk: ")
    assert "Traceback" not in done.stderr
