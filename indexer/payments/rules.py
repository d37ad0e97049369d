"""Rules: the SQL that parses the texts of a row exactly and tells payments from rejects.

A query that reads a file is a chain of common table expressions:

    staged   `damaged` (whether the row is no JSON object) and the text of each of COLUMNS (`load`)
    typed    exact values beside the texts; null where a text is invalid
    judged   `fault`: null for a payment, else the code of a reject or of a row left out
"""

from __future__ import annotations

from indexer.payments.files import MAX_ROW, sql_map
from service.networks import NETWORK_KEYS

MAX_DECIMALS = 18
MAX_DOLLARS = 10**12

ADDRESSES = ("tx_hash", "sender", "recipient", "address", "transaction_from", "token_address")

# Values of `success` in use, in any case; a row with another one has failed. This is a pattern,
# because DuckDB turns a list of so many values into a hash join, which breaks the order of rows.
SUCCESSES = r"true|t|1|1\.0|yes|y|ok|success|succeeded|confirmed"

# The first comparison is cheap and false for almost all rows, so that few compute the power.
TOO_MUCH = (
    f"base_units > {MAX_DOLLARS} AND base_units::DOUBLE / pow(10, decimal_places) > {MAX_DOLLARS}"
)
NOT_A_TIME = (
    "is not a date and time such as `2026-05-07T10:16:51Z`, nor whole Unix seconds or milliseconds"
)
NOT_DOLLARS = "is not a decimal of at most 6 places, from 0 and without `$`"

# Each fault: its column, its SQL condition, and its reason in the list of rejects. A row without a
# column is no payment for another reason than its values, and is counted by that reason as left
# out. The code of a fault is its index; the first condition that holds counts. Those that are not
# of one row are decided when all rows are loaded.
LATER = "false"
FAULTS: tuple[tuple[str | None, str, str], ...] = (
    ("", "damaged", f"is not a JSON object of at most {MAX_ROW:,} bytes"),
    (None, "failed", "failed payments"),
    ("chain", "chain IS NULL", "is missing"),
    ("block_timestamp", "block_timestamp IS NULL", "is missing"),
    ("block_timestamp", "paid_at IS NULL", NOT_A_TIME),
    ("block_timestamp", "paid_at < 0", "is before 1970"),
    ("block_timestamp", "paid_at > $latest", "is more than an hour in the future"),
    ("sender", "sender IS NULL", "is missing"),
    ("recipient", "recipient IS NULL", "is missing"),
    ("log_index", "log_index IS NOT NULL AND event_index IS NULL", "is not a whole number"),
    (None, LATER, "payments on test networks"),
    (None, LATER, "payments in unknown tokens"),
    (None, LATER, "payments in other currencies"),
    ("amount", "coalesce(amount, dollars) IS NULL", "is missing"),
    ("amount", "amount IS NOT NULL AND base_units IS NULL", "is not a whole number of base units"),
    ("dollars", "base_units IS NULL", NOT_DOLLARS),
    ("decimals", "amount IS NOT NULL AND stated IS NULL", "is missing"),
    ("decimals", "decimal_places IS NULL", f"is not a whole number from 0 to {MAX_DECIMALS}"),
    ("amount", f"amount IS NOT NULL AND {TOO_MUCH}", "is over 10^12 US dollars"),
    ("dollars", TOO_MUCH, "is over 10^12 US dollars"),
    ("decimals", LATER, "is not the number of decimals of this token"),
    (None, LATER, "duplicate payments"),
)
REJECTS = tuple(code for code, (column, *_) in enumerate(FAULTS) if column is not None)
TEST_NETWORK, UNKNOWN_TOKEN, OTHER_CURRENCY, WRONG_DECIMALS, DUPLICATE = (
    code for code, (_, condition, _) in enumerate(FAULTS) if condition == LATER
)

MACROS = r"""
CREATE MACRO canonical_address(text) AS
    CASE WHEN starts_with(text, '0x') THEN lower(text) ELSE text END;

-- The shortest decimal without an exponent that reads back as the same number; of a whole number
-- all digits. DuckDB reads decimals of more than 38 digits as doubles.
CREATE MACRO double_text(number) AS
    CASE WHEN number = trunc(number) AND abs(number) < 1e38 THEN number::HUGEINT::VARCHAR
        WHEN abs(number) < 0.001 THEN number::DECIMAL(38, 18)::VARCHAR
        ELSE number::VARCHAR END;

-- Binary values of 20 or 32 bytes are addresses and hashes; others are decoded as UTF-8.
CREATE MACRO blob_text(value) AS
    CASE WHEN octet_length(value) IN (20, 32) THEN '0x' || lower(hex(value))
        ELSE try(decode(value)) END;
"""
_KEYS = sql_map({name: key for name, key in NETWORK_KEYS.items() if name != key}, "VARCHAR")
MACROS += rf"""
-- `network_key` of `service.networks`, for names in ASCII.
CREATE MACRO fold_network(text) AS replace(replace(lower(trim(text)), ' ', '-'), '_', '-');
CREATE MACRO caip2(name) AS
    CASE WHEN starts_with(name, 'solana:') THEN left(name, {len("solana:") + 32})
        WHEN regexp_full_match(name, '((evm|eip155)[:-])?\d+')
        THEN 'eip155:' || regexp_extract(name, '\d+$')
        ELSE name END;
CREATE MACRO known_network(name) AS coalesce(map_extract_value({_KEYS}, name),
    map_extract_value({_KEYS}, replace(name, ':mainnet', '-mainnet')), name);
-- Nearly all rows have one of few names, which need no folding.
CREATE MACRO network_key(text) AS
    CASE WHEN text IN ('base', 'solana', 'polygon') THEN text
        ELSE known_network(caip2(fold_network(text))) END;
"""

# Values of the stages, each used once: DuckDB takes half a millisecond to create a macro.
# Milliseconds since 1970. The pattern rejects what the cast accepts besides: dates, `infinity`.
# Unix times from 2001 to 2286 have 10 digits in seconds and 13 in milliseconds.
PAID_AT = r"""CASE WHEN regexp_full_match(block_timestamp, '\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*')
    THEN epoch_ms(try_cast(block_timestamp AS TIMESTAMPTZ))
    WHEN regexp_full_match(block_timestamp, '\d{10}(\.0+)?') THEN block_timestamp::BIGINT * 1000
    WHEN regexp_full_match(block_timestamp, '\d{13}(\.0+)?') THEN block_timestamp::BIGINT END"""
# Floats from 10^16 on are printed with an exponent, as 1e+16, and have no fraction.
BASE_UNITS = r"""CASE WHEN regexp_full_match(amount, '\d{1,38}(\.0+)?') THEN amount::HUGEINT
    WHEN regexp_full_match(amount, '\d(\.\d{1,16})?[eE]\+?(1[6-9]|2\d|3[0-7])')
    THEN try_cast(amount AS DECIMAL(38, 0))::HUGEINT END"""
# A decimal without the commas between its thousands; `0,005` has a decimal comma, and is none.
WITHOUT_COMMAS = r"""CASE WHEN regexp_full_match(dollars, '[1-9]\d{0,2}(,\d{3})+(\.\d*)?')
    THEN replace(dollars, ',', '') ELSE dollars END"""
# A decimal as programs print small and large floats, such as 1e-05, without its exponent.
WITHOUT_EXPONENT = r"""CASE WHEN regexp_full_match(dollars, '\d{1,20}(\.\d+)?[eE][+-]?\d{1,2}')
    THEN coalesce(try_cast(dollars AS DECIMAL(38, 18))::VARCHAR, dollars) ELSE dollars END"""
# Millionths of a dollar. Digits beyond the sixth may only be the rounding error of a double.
MICRO_DOLLARS = r"""CASE WHEN regexp_full_match(dollars, '\d{1,20}(\.\d{1,6}0*)?')
    THEN (dollars::DECIMAL(38, 6) * 1000000)::HUGEINT
    WHEN regexp_full_match(dollars, '\d{1,9}\.\d{7,}')
        AND abs(dollars::DOUBLE - round(dollars::DOUBLE, 6)) < 1e-9
    THEN round(dollars::DOUBLE * 1000000)::HUGEINT END"""
DECIMAL_PLACES = r"""CASE WHEN regexp_full_match(stated, '(0?\d|1[0-8])(\.0+)?')
    THEN stated::TINYINT END"""
EVENT_INDEX = r"""CASE WHEN regexp_full_match(log_index, '\d{1,18}(\.0+)?')
    THEN log_index::BIGINT END"""
# US dollars in units of 10^-18, exact for every number of decimals.
_POWERS = [10**places for places in range(MAX_DECIMALS, -1, -1)]
UNITS = f"""from_json('{_POWERS}', '["HUGEINT"]')[decimal_places + 1]"""
# `$latest`: the time of the latest payment that is accepted, in milliseconds since 1970. An amount
# without decimals has those of its token, or is no amount where there are dollars.
STAGES = f"""
named AS (
    SELECT * REPLACE ({", ".join(f"canonical_address({name}) AS {name}" for name in ADDRESSES)},
            {WITHOUT_COMMAS} AS dollars),
        network_key(chain) AS network
    FROM staged
),
stated AS (
    SELECT * REPLACE (CASE WHEN decimals IS NOT NULL OR dollars IS NULL THEN amount END AS amount,
            {WITHOUT_EXPONENT} AS dollars),
        coalesce(decimals, coin(network, token_address).places::VARCHAR) AS stated
    FROM named
),
typed AS (
    SELECT *,
        {PAID_AT} AS paid_at,
        CASE WHEN amount IS NULL THEN {MICRO_DOLLARS}
            ELSE {BASE_UNITS} END AS base_units,
        CASE WHEN amount IS NULL THEN 6 ELSE {DECIMAL_PLACES} END AS decimal_places,
        {EVENT_INDEX} AS event_index,
        NOT coalesce(regexp_full_match(success, '{SUCCESSES}', 'i'), true) AS failed
    FROM stated
),
judged AS (
    SELECT *,
        CASE {" ".join(f"WHEN {test} THEN {code}" for code, (_, test, _) in enumerate(FAULTS))}
        END AS fault
    FROM typed
)
"""  # noqa: S608  # made of constants
