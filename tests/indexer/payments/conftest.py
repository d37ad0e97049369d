"""A database of payments that tests fill."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from duckdb import DuckDBPyConnection

from indexer.payments.rules import MACROS

PAYMENTS = """
CREATE TABLE payments (
    row BIGINT, file INTEGER, paid_at BIGINT, atto HUGEINT, tx_hash VARCHAR, event_index BIGINT,
    sender VARCHAR, recipient VARCHAR, network VARCHAR, token_address VARCHAR
)
"""


@pytest.fixture(scope="package")
def database() -> Iterator[DuckDBPyConnection]:
    """A database for payments, of one thread: planning for more takes a third longer."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(PAYMENTS)
        connection.execute(MACROS)
        yield connection
