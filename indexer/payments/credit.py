"""Credit: each payment of 30 days goes to the one service, and endpoint, that it can have bought.

The claims to the payee and network of a payment decide. Only the best claims count: by trust in
their source, then those that counted in the served snapshot, so that whoever names the address of
another later takes none of its payments. A service that claims alone is credited, whatever was
paid; among several services, or several endpoints of one, the token and the exact amount decide. A
payment that fits several services alike is shared, and credited to none. Payments to oneself find
their seller too, but are counted apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Context, Decimal, Inexact, InvalidOperation
from itertools import repeat
from typing import TYPE_CHECKING

from msgspec import Struct

from indexer.decisions import Decisions
from indexer.payments.claims import Claim
from indexer.payments.demand import (
    ENDPOINT_BITS,
    SERVICE_MASK,
    ServiceDemand,
    read_demand,
    read_inputs,
)
from indexer.probes.verdicts import insert_rows
from indexer.snapshot.ecosystem import DAY
from service.schema.demand import DemandInputs

if TYPE_CHECKING:  # a catalogue without payments is built without DuckDB
    from duckdb import DuckDBPyConnection

WINDOW = 30 * DAY  # milliseconds
NO_PAYMENT = -1
"""The price in claims of amounts that no payment can have, such as fractions of 10^-18 dollars."""

# `seller` is the number of a service, and in the lower bits that of its endpoint plus 1, or 0 for
# none. So the least and the greatest seller of a group tell whether it has one service and one
# endpoint only. Groups have a row each: no join multiplies the payments of a busy payee by the many
# services that claim it. `token` is empty for payments without one, and null for claims to any.
SCHEMA = """
CREATE OR REPLACE TABLE claims (
    place VARCHAR, payee VARCHAR, network VARCHAR, token VARCHAR, atto HUGEINT, seller BIGINT,
    trust BIGINT, is_counted BOOLEAN
)
"""
INSERT = """
INSERT INTO claims
SELECT place, canonical_address(payee), network, nullif(canonical_address(asset), ''),
    nullif(atto, '')::HUGEINT, seller, trust, is_counted
FROM batch
"""
# A parameter of the queries below: a comparison with a subquery would make their plans slow.
START = f"SELECT max(paid_at) - {WINDOW} FROM payments"  # noqa: S608  # made of constants
ACCOUNTS = """
CREATE OR REPLACE TABLE accounts AS
SELECT row_number() OVER () AS account, *
FROM (
    SELECT DISTINCT recipient AS payee, network, coalesce(token_address, '') AS token
    FROM payments SEMI JOIN claims ON recipient = payee
    WHERE paid_at > $start
)
"""
# The claims of the best rank. A payee has few networks and tokens, as payments are in the known
# stablecoins; so the claims that name none are repeated a few times only.
BEST = """
CREATE OR REPLACE TABLE best AS
SELECT paid.payee, paid.network, token, atto, seller
FROM (SELECT DISTINCT payee, network FROM accounts) AS paid
JOIN claims ON claims.payee = paid.payee AND claims.network IN ('', paid.network)
QUALIFY (trust, is_counted) = max((trust, is_counted)) OVER (PARTITION BY paid.payee, paid.network)
"""
# The sellers of an account at an exact amount, or at any where `atto` is null.
FITTING = """
CREATE OR REPLACE TABLE fitting AS
SELECT account, atto, min(seller) AS low, max(seller) AS high
FROM accounts JOIN best USING (payee, network)
WHERE best.token IS NULL OR accounts.token IN ('', best.token)
GROUP BY ALL
"""
# Payments that the payee also paid back to their payer, at any time of the window.
RETURNED = """
CREATE OR REPLACE TABLE returned AS
WITH recent AS (
    SELECT DISTINCT sender, recipient FROM payments WHERE paid_at > $start AND sender <> recipient
)
FROM recent SEMI JOIN recent AS back
    ON back.sender = recent.recipient AND back.recipient = recent.sender
"""
# The payments of each payer to each seller; `seller` is null where they are shared. A payment of
# a claimant fits by the exact price, by any, or not at all. A row has the payments of one UTC day,
# counted from the first of the 31 that the 30 x 24 hours touch.
CREDITS = f"""
CREATE OR REPLACE TABLE credits AS
WITH claimants AS (
    SELECT payee, network, min(seller) AS low, max(seller) AS high FROM best GROUP BY ALL
),
claimed AS (
    SELECT accounts.*, claimants.low, claimants.high,
        inexact.low AS any_low, inexact.high AS any_high
    FROM accounts
    JOIN claimants USING (payee, network)
    LEFT JOIN (FROM fitting WHERE atto IS NULL) AS inexact USING (account)
),
fitted AS (
    SELECT sender, recipient, paid_at, payments.atto,
        coalesce(exact.low, any_low) AS fit_low, coalesce(exact.high, any_high) AS fit_high,
        CASE
            WHEN claimed.low = claimed.high THEN claimed.low
            WHEN fit_low = fit_high THEN fit_low
            WHEN (fit_low & {SERVICE_MASK}) = (fit_high & {SERVICE_MASK})
                THEN fit_low & {SERVICE_MASK}
            WHEN (claimed.low & {SERVICE_MASK}) = (claimed.high & {SERVICE_MASK})
                THEN claimed.low & {SERVICE_MASK}
        END AS seller
    FROM payments
    JOIN claimed ON recipient = payee AND payments.network = claimed.network
        AND coalesce(token_address, '') = claimed.token
    LEFT JOIN fitting AS exact ON exact.account = claimed.account AND exact.atto = payments.atto
    WHERE paid_at > $start
)
SELECT fitted.sender, seller, fitted.sender = fitted.recipient AS is_self,
    returned.sender IS NOT NULL AS is_returned,
    count(*) AS calls, sum(atto) AS volume, max(paid_at) AS last,
    paid_at // {DAY} - $start // {DAY} AS day,
    count(*) FILTER (fit_low IS NULL) AS unmatched
FROM fitted LEFT JOIN returned
    ON returned.sender = fitted.sender AND returned.recipient = fitted.recipient
GROUP BY ALL
"""  # noqa: S608  # made of constants
# The claims that the next build prefers. A claim without a network competes on every network, and
# counts only if it wins on all of them, or counted before: otherwise the next build would credit
# others.
COUNTED = """
WITH places AS (
    SELECT place, payee, network, max((trust, is_counted)) AS rank FROM claims GROUP BY ALL
)
SELECT place FROM (
    SELECT *, max(rank) OVER (PARTITION BY payee) AS of_payee,
        max(rank) OVER (PARTITION BY payee, network) AS of_network,
        max(rank) FILTER (network = '') OVER (PARTITION BY payee) AS anywhere
    FROM places
)
WHERE rank = of_network AND (
    anywhere IS NULL OR rank > anywhere OR (rank = anywhere AND (rank = of_payee OR rank[2]))
)
"""
TOTALS = """
SELECT coalesce(sum(calls) FILTER (seller IS NOT NULL), 0)::BIGINT,
    coalesce(sum(calls) FILTER (seller IS NULL), 0)::BIGINT
FROM credits WHERE NOT is_self
"""


class Credits(Struct):
    """The numbers of payments that are credited and shared, and the demand of each service.

    The demand of a service without payments is None. `demand` can be iterated once; `inputs` are
    the properties of all payments of the 30 days.
    """

    credited: int
    shared: int
    inputs: DemandInputs
    demand: Iterator[ServiceDemand | None]


_atto = Decimal("1e-18")
_exact = Context(prec=38, traps=[Inexact, InvalidOperation])


def count_credits(
    payments: DuckDBPyConnection, services: Iterable[Iterable[Claim]], decisions: Decisions
) -> Credits:
    """Credit the payments of 30 days to services, given the claims of each.

    The window is the 30 days up to and including the newest payment. `payments` is the database
    that `load_payments` filled. All claims are consumed, and those that count are added to the
    decisions, before the function returns.
    """
    connection = payments.cursor()  # the caller may run other queries meanwhile
    connection.execute(SCHEMA)
    count = _insert_claims(connection, services, decisions)
    for (place,) in connection.execute(COUNTED).fetchall():
        decisions.count(place)
    ((start,),) = connection.execute(START).fetchall()
    if start is None:  # without payments
        connection.close()
        return Credits(0, 0, DemandInputs(), repeat(None, count))
    for query in (RETURNED, ACCOUNTS):
        connection.execute(query, {"start": start})
    for query in (BEST, FITTING):
        connection.execute(query)
    # DuckDB expects that few payments match, and would build the hash tables of the joins of them.
    connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
    connection.execute(CREDITS, {"start": start})
    connection.execute("RESET disabled_optimizers")
    ((credited, shared),) = connection.execute(TOTALS).fetchall()
    return Credits(credited, shared, read_inputs(connection, start), read_demand(connection, count))


def _insert_claims(
    connection: DuckDBPyConnection, services: Iterable[Iterable[Claim]], decisions: Decisions
) -> int:
    """Insert the claims of services; returns the number of services."""
    names = ("place", "payee", "network", "asset", "atto", "seller", "trust", "is_counted")
    count = 0

    def rows() -> Iterator[tuple[str | int | bool, ...]]:
        nonlocal count
        for claims in services:
            for each in claims:
                atto = "" if each.price is None else str(_atto_dollars(each.price))
                seller = (count << ENDPOINT_BITS) + each.endpoint + 1
                texts = each.place, each.payee, each.network, each.asset, atto
                is_counted = decisions.has_claim(each.place)
                is_counted = is_counted or decisions.has_claim(each.earlier_place)
                yield *texts, seller, each.trust, is_counted
            count += 1

    insert_rows(connection, INSERT, names, rows())
    return count


def _atto_dollars(price: Decimal) -> int:
    """Return dollars in units of 10^-18, or NO_PAYMENT where no payment can have this amount."""
    try:
        return int(price.quantize(_atto, context=_exact).scaleb(18, _exact))
    except (Inexact, InvalidOperation):
        return NO_PAYMENT
