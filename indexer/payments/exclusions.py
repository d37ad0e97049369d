"""Exclusions: payments on test networks, in unknown tokens or in other currencies, and duplicates.

Excluded payments are counted apart, and are in no total, credit or list of transactions.
"""

from __future__ import annotations

from duckdb import DuckDBPyConnection

from indexer.assets.stablecoins import Stablecoins
from indexer.assets.testnets import is_test_network
from indexer.payments.rules import (
    DUPLICATE,
    FAULTS,
    OTHER_CURRENCY,
    TEST_NETWORK,
    UNKNOWN_TOKEN,
    WRONG_DECIMALS,
)

BATCH = 10_000

# The amount of another token may exceed every bound of dollars, and is not judged.
_VALUE_FAULTS = tuple(
    code for code, (column, *_) in enumerate(FAULTS) if column in ("amount", "decimals", "dollars")
)
JUDGED = f"(fault IS NULL OR fault IN {_VALUE_FAULTS})"
NETWORKS = f"SELECT DISTINCT network FROM rows WHERE {JUDGED} AND network IS NOT NULL"  # noqa: S608  # made of constants
STABLECOINS = """
CREATE TEMP TABLE stablecoins AS
SELECT network, md5_number(address) AS token, token_decimals, is_usd
FROM (SELECT unnest($networks) AS network, unnest($addresses) AS address,
    unnest($decimals) AS token_decimals, unnest($usd) AS is_usd)
"""
# Few combinations of network, token and decimals stand for all rows.
EXCLUDED = f"""
CREATE TEMP TABLE excluded AS
SELECT * FROM (
    SELECT network, token, stated_decimals, CASE
        WHEN list_contains($test_networks, network) THEN {TEST_NETWORK}
        WHEN token IS NULL THEN NULL
        WHEN is_usd IS NULL THEN {UNKNOWN_TOKEN}
        WHEN NOT is_usd THEN {OTHER_CURRENCY}
        WHEN stated_decimals <> token_decimals THEN {WRONG_DECIMALS}
        END AS exclusion
    FROM (SELECT DISTINCT network, token, stated_decimals FROM rows WHERE {JUDGED})
    LEFT JOIN stablecoins USING (network, token)
)
WHERE exclusion IS NOT NULL
"""  # noqa: S608  # made of constants
EXCLUDE = f"""
UPDATE rows SET fault = exclusion FROM excluded
WHERE rows.network = excluded.network
    AND rows.token IS NOT DISTINCT FROM excluded.token
    AND rows.stated_decimals IS NOT DISTINCT FROM excluded.stated_decimals
    AND {JUDGED} AND (fault IS NULL OR exclusion < 0)
"""  # noqa: S608  # made of constants

# Only the few rows that share a transaction are compared. A log index identifies a payment of a
# transaction. Without log index its parties and amount do, and a row is a duplicate of any row with
# them, so that exports with and without log indexes do not double. Rows without a transaction hash
# are never duplicates.
CANDIDATES = """
CREATE TEMP TABLE candidates AS
SELECT rows.rowid AS row, transaction, event_index, sender, recipient, atto
FROM rows SEMI JOIN (
    SELECT transaction FROM rows WHERE fault IS NULL AND transaction IS NOT NULL
    GROUP BY transaction HAVING count(*) > 1
) USING (transaction)
WHERE fault IS NULL
"""
DEDUPLICATE = f"""
UPDATE rows SET fault = {DUPLICATE} FROM (
    FROM candidates ANTI JOIN (
        SELECT min(row) AS row FROM candidates WHERE event_index IS NOT NULL
        GROUP BY transaction, event_index
        UNION ALL
        SELECT min(row) FROM candidates
        GROUP BY transaction, sender, recipient, atto HAVING bool_and(event_index IS NULL)
    ) AS originals USING (row)
) AS duplicate
WHERE rows.rowid = duplicate.row
"""  # noqa: S608  # made of constants


def exclude_rows(connection: DuckDBPyConnection, stablecoins: Stablecoins) -> None:
    """Set the fault of the rows of the table `rows` that are not counted as dollars."""
    test_networks = []
    networks = connection.execute(NETWORKS)
    while batch := networks.fetchmany(BATCH):
        test_networks += [name for (name,) in batch if is_test_network(name)]
    keys, assets = stablecoins.assets.keys(), stablecoins.assets.values()
    values = {
        "networks": [network for network, _ in keys],
        "addresses": [address for _, address in keys],
        "decimals": [asset.decimals for asset in assets],
        "usd": [asset.is_usd for asset in assets],
    }
    connection.execute(STABLECOINS, values)
    connection.execute(EXCLUDED, {"test_networks": test_networks})
    for query in (EXCLUDE, CANDIDATES, DEDUPLICATE):
        connection.execute(query)
    connection.execute("DROP TABLE stablecoins; DROP TABLE excluded; DROP TABLE candidates")
