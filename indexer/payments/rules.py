"""Rules: the SQL stages that parse the texts of a row exactly and tell payments from rejects.

Each query that reads a file is a chain of common table expressions, the stages:

    source   the lines of a text file, or the rows of a Parquet file   (text_files, parquet)
    staged   the index of the row in its file, its damage if any, and
             the text of each of COLUMNS                               (text_files, parquet)
    typed    exact values beside the texts; null where a text is invalid
    judged   `fault`: null for a payment, else the code of a reject or of a row left out

Columns of `staged` beside COLUMNS: `row` (index), `blank` (a line without text), `damage` (why the
line cannot be split into values, or null) and `unclosed` (the line has an odd number of quotes).
"""

from __future__ import annotations

from indexer.payments.files import sql_text
from service.networks import NETWORK_KEYS

MAX_DECIMALS = 18
MAX_DOLLARS = 10**12

ADDRESSES = ("tx_hash", "sender", "recipient", "address", "transaction_from", "token_address")

# Codes of rows that are not payments for another reason than their values.
BLANK, FAILED, DUPLICATE, ENCLOSED = -1, -2, -3, -4
TEST_NETWORK, UNKNOWN_TOKEN, OTHER_CURRENCY = -5, -6, -7
LEFT_OUT = {
    FAILED: "failed payments",
    DUPLICATE: "duplicate payments",
    TEST_NETWORK: "payments on test networks",
    UNKNOWN_TOKEN: "payments in unknown tokens",
    OTHER_CURRENCY: "payments in other currencies",
}

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
NOT_DOLLARS = "is not a decimal of at most 6 places, from 0"

# Each fault: its column, its SQL condition, and its reason in the list of rejects. The code of a
# fault is its index; the first condition that holds counts. The column `damage` is a reason itself.
FAULTS = (
    ("", "damage IS NOT NULL", ""),
    ("chain", "chain IS NULL", "is missing"),
    ("block_timestamp", "block_timestamp IS NULL", "is missing"),
    ("block_timestamp", "paid_at IS NULL", NOT_A_TIME),
    ("block_timestamp", "paid_at < 0", "is before 1970"),
    ("block_timestamp", "paid_at > $latest", "is more than an hour in the future"),
    ("sender", "sender IS NULL", "is missing"),
    ("recipient", "recipient IS NULL", "is missing"),
    ("amount", "coalesce(amount, dollars) IS NULL", "is missing"),
    ("amount", "amount IS NOT NULL AND base_units IS NULL", "is not a whole number of base units"),
    ("dollars", "base_units IS NULL", NOT_DOLLARS),
    ("decimals", "amount IS NOT NULL AND decimals IS NULL", "is missing"),
    ("decimals", "decimal_places IS NULL", f"is not a whole number from 0 to {MAX_DECIMALS}"),
    ("amount", f"amount IS NOT NULL AND {TOO_MUCH}", "is over 10^12 US dollars"),
    ("dollars", TOO_MUCH, "is over 10^12 US dollars"),
    ("log_index", "log_index IS NOT NULL AND event_index IS NULL", "is not a whole number"),
    ("decimals", "false", "is not the number of decimals of this token"),  # found by `exclusions`
)
WRONG_DECIMALS = len(FAULTS) - 1

MACROS = r"""
CREATE MACRO canonical_address(text) AS
    CASE WHEN starts_with(text, '0x') THEN lower(text) ELSE text END;

-- Milliseconds since 1970. The pattern rejects what the cast accepts besides: dates, `infinity`.
-- Unix times from 2001 to 2286 have 10 digits in seconds and 13 in milliseconds.
CREATE MACRO parse_time(text) AS
    CASE WHEN regexp_full_match(text, '\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*')
        THEN epoch_ms(try_cast(text AS TIMESTAMPTZ))
        WHEN regexp_full_match(text, '\d{10}(\.0+)?') THEN text::BIGINT * 1000
        WHEN regexp_full_match(text, '\d{13}(\.0+)?') THEN text::BIGINT END;

-- Floats from 10^16 on are printed with an exponent, as 1e+16, and have no fraction.
CREATE MACRO parse_base_units(text) AS
    CASE WHEN regexp_full_match(text, '\d{1,38}(\.0+)?') THEN text::HUGEINT
        WHEN regexp_full_match(text, '\d(\.\d{1,16})?[eE]\+?(1[6-9]|2\d|3[0-7])')
        THEN try_cast(text AS DECIMAL(38, 0))::HUGEINT END;

-- A decimal as programs print small and large floats, such as 1e-05, without its exponent.
CREATE MACRO without_exponent(text) AS
    CASE WHEN regexp_full_match(text, '\d{1,20}(\.\d+)?[eE][+-]?\d{1,2}')
        THEN coalesce(try_cast(text AS DECIMAL(38, 18))::VARCHAR, text) ELSE text END;

-- Millionths of a dollar. Digits beyond the sixth may only be the rounding error of a double.
CREATE MACRO parse_plain_dollars(text) AS
    CASE WHEN regexp_full_match(text, '\d{1,20}(\.\d{1,6}0*)?')
        THEN (text::DECIMAL(38, 6) * 1000000)::HUGEINT
        WHEN regexp_full_match(text, '\d{1,9}\.\d{7,}')
            AND abs(text::DOUBLE - round(text::DOUBLE, 6)) < 1e-9
        THEN round(text::DOUBLE * 1000000)::HUGEINT END;
CREATE MACRO parse_dollars(text) AS parse_plain_dollars(without_exponent(text));

CREATE MACRO parse_decimals(text) AS
    CASE WHEN regexp_full_match(text, '(0?\d|1[0-8])(\.0+)?') THEN text::TINYINT END;

CREATE MACRO parse_log_index(text) AS
    CASE WHEN regexp_full_match(text, '\d{1,18}(\.0+)?') THEN text::BIGINT END;
"""
_KEYS = ", ".join(
    f"{sql_text(name)}: {sql_text(key)}" for name, key in NETWORK_KEYS.items() if name != key
)
MACROS += rf"""
-- `network_key` of `service.networks`, for names in ASCII.
CREATE MACRO fold_network(text) AS replace(replace(lower(trim(text)), ' ', '-'), '_', '-');
CREATE MACRO caip2(name) AS
    CASE WHEN starts_with(name, 'solana:') THEN left(name, {len("solana:") + 32})
        WHEN name BETWEEN '0' AND ':' AND regexp_full_match(name, '\d+') THEN 'eip155:' || name
        ELSE name END;
CREATE MACRO known_network(name) AS coalesce(map_extract_value(MAP {{{_KEYS}}}, name), name);
CREATE MACRO network_key(text) AS known_network(caip2(fold_network(text)));
"""
_POWERS = " ".join(
    f"WHEN {places} THEN {10 ** (MAX_DECIMALS - places)}::HUGEINT"
    for places in range(MAX_DECIMALS + 1)
)
MACROS += f"""
-- US dollars in units of 10^-18, exact for every number of decimals.
CREATE MACRO atto_dollars(base_units, decimal_places) AS
    base_units * CASE decimal_places {_POWERS} END;
"""

# `$latest`: the time of the latest payment that is accepted, in milliseconds since 1970.
STAGES = f"""
typed AS (
    SELECT
        * REPLACE ({", ".join(f"canonical_address({name}) AS {name}" for name in ADDRESSES)}),
        network_key(chain) AS network,
        parse_time(block_timestamp) AS paid_at,
        CASE WHEN amount IS NULL THEN parse_dollars(dollars)
            ELSE parse_base_units(amount) END AS base_units,
        CASE WHEN amount IS NULL THEN 6 ELSE parse_decimals(decimals) END AS decimal_places,
        parse_log_index(log_index) AS event_index,
        damage IS NULL AND NOT coalesce(regexp_full_match(success, '{SUCCESSES}', 'i'), true)
            AS failed
    FROM staged
),
judged AS (
    SELECT *, CASE
        WHEN blank THEN {BLANK}
        WHEN failed THEN {FAILED}
        {" ".join(f"WHEN {test} THEN {code}" for code, (_, test, _) in enumerate(FAULTS))}
        END AS fault
    FROM typed
)
"""  # noqa: S608  # made of constants
