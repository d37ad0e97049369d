"""What makes a row a payment: exact values cast from its texts, and the faults that it may have."""

from __future__ import annotations

MAX_DECIMALS = 18
MAX_DOLLARS = 10**12
SUCCESSES = "('true', 't', '1')"
# The first half spares most rows the second.
FORTUNE = f"base > {MAX_DOLLARS} AND base::DOUBLE / pow(10, places) > {MAX_DOLLARS}"

# The column at fault, the condition in SQL, and the reason in words, but for the first, which the
# row itself tells; the first that holds counts.
FAULTS = (
    ("", "broken IS NOT NULL", ""),
    ("chain", "chain IS NULL", "is missing"),
    ("block_timestamp", "block_timestamp IS NULL", "is missing"),
    ("block_timestamp", "moment IS NULL", "is not a date and time such as `2026-05-07T10:16:51Z`"),
    ("block_timestamp", "moment < 0", "is before 1970"),
    ("block_timestamp", "moment > $latest", "is more than an hour in the future"),
    ("sender", "sender IS NULL", "is missing"),
    ("recipient", "recipient IS NULL", "is missing"),
    ("amount", "coalesce(amount, dollars) IS NULL", "is missing"),
    ("amount", "amount IS NOT NULL AND base IS NULL", "is not a whole number of base units"),
    ("dollars", "base IS NULL", "is not a decimal of at most 6 places, from 0, without exponent"),
    ("decimals", "amount IS NOT NULL AND decimals IS NULL", "is missing"),
    ("decimals", "places IS NULL", f"is not a whole number from 0 to {MAX_DECIMALS}"),
    ("amount", f"amount IS NOT NULL AND {FORTUNE}", "is over 10^12 US dollars"),
    ("dollars", FORTUNE, "is over 10^12 US dollars"),
    ("log_index", "log_index IS NOT NULL AND event IS NULL", "is not a whole number"),
)
CONDITIONS = " ".join(f"WHEN {condition} THEN {n}" for n, (_, condition, _) in enumerate(FAULTS))
# What a row is that is no payment, besides at fault by itself.
BLANK, FAILED, DUPLICATE, ENCLOSED = -1, -2, -3, -4

ADDRESSES = ("tx_hash", "sender", "recipient", "address", "transaction_from", "token_address")
SHOWN = ("id", "chain", *ADDRESSES, "provider", "facilitator_id")
POWERS = f"[{', '.join(f'{10**power}::HUGEINT' for power in range(MAX_DECIMALS + 1))}]"

# What two rows agree in that are one payment. No two that differ are written alike: the chain goes
# by its length, digits end at a blank, and what follows is one text.
TRANSACTION = """
    concat(
        length(lower(chain)), ' ', lower(chain), event,
        CASE WHEN event IS NULL THEN concat(
            '/', length(sender), ' ', sender, length(recipient), ' ', recipient, base, ' ', places
        ) END,
        ' ', tx_hash
    )
"""

# Texts as `PaymentFile` has them, and what they say; a value that cannot be cast is null.
TYPED = f"""
SELECT
    * REPLACE ({", ".join(f"plain_address({column}) AS {column}" for column in ADDRESSES)}),
    CASE WHEN regexp_full_match(block_timestamp, '\\d{{4}}-\\d\\d-\\d\\d[T ]\\d\\d:\\d\\d.*')
        THEN epoch_ms(try_cast(block_timestamp AS TIMESTAMPTZ)) END AS moment,
    CASE WHEN amount IS NULL AND regexp_full_match(dollars, '\\d{{1,20}}(\\.\\d{{1,6}}0*)?')
            THEN (dollars::DECIMAL(38, 6) * 1000000)::HUGEINT
        WHEN regexp_full_match(amount, '\\d{{1,38}}') THEN try_cast(amount AS HUGEINT)
        END AS base,
    CASE WHEN amount IS NULL THEN 6
        WHEN regexp_full_match(decimals, '\\d\\d?') AND decimals::INTEGER <= {MAX_DECIMALS}
        THEN decimals::INTEGER END AS places,
    CASE WHEN regexp_full_match(log_index, '\\d{{1,18}}') THEN log_index::BIGINT END AS event,
    broken IS NULL AND coalesce(lower(success) NOT IN {SUCCESSES}, false) AS failed
FROM ({{rows}})
"""  # noqa: S608  # made of constants

# `fault` is null for a payment; `$latest` is the last moment that is not in the future.
JUDGED = f"""
SELECT *, CASE WHEN blank THEN {BLANK} WHEN failed THEN {FAILED} {CONDITIONS} END AS fault
FROM ({TYPED})
"""  # noqa: S608  # made of constants
