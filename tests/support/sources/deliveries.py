"""Records of purchases, signed as observers sign them."""

from __future__ import annotations

import copy
import sys
from datetime import datetime
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from tests.support.running import Json

if not all(map(find_spec, ("eth_account", "rfc8785"))):
    pytest.skip("needs the extra `deliveries`", allow_module_level=True)

STRINGS = {
    "id": ("id",),
    "verdict": ("verdict", "code"),
    "network": ("payment", "network"),
    "resourceUrl": ("resourceUrl",),
    "payer": ("payment", "payer"),
    "payTo": ("payment", "payTo"),
    "asset": ("payment", "asset"),
    "amount": ("payment", "amount"),
    "transaction": ("payment", "transaction"),
    "responseHash": ("response", "responseHash"),
    "responseHashAlg": ("response", "responseHashAlg"),
    "responseHashEncoding": ("response", "responseHashEncoding"),
}
NUMBERS = {
    "version": ("version",),
    "sequence": ("observer", "sequence"),
    "httpStatus": ("response", "status"),
    "issuedAt": ("issuedAt",),
}
ADDRESSES = {
    1: "0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf",
    2: "0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF",
    3: "0x6813Eb9362372EEF6200f3b1dbC3f819671cBA69",
}
"""The addresses of the keys of these numbers."""
ORDER = (
    *("version", "id", "sequence", "verdict", "network", "resourceUrl", "payer", "payTo", "asset"),
    *("amount", "transaction", "httpStatus", "responseHash", "responseHashAlg"),
    *("responseHashEncoding", "issuedAt"),
)


@cache
def load_library() -> Any:
    """Import `eth_account`, which takes a second, and keeps the limit of nesting as it was."""
    limit = sys.getrecursionlimit()
    library = import_module("eth_account")
    sys.setrecursionlimit(limit)  # tests of deep nesting would end the process
    return library


class Observer:
    """A buyer with a key of its own."""

    def __init__(self, number: int = 1) -> None:
        self._number, self.address = number, ADDRESSES[number]

    def buy(self, url: str, pay_to: str, issued: datetime, number: int = 1, **members: Any) -> Json:
        """Return a signed record of a purchase that was delivered, but for some members."""
        record: Json = {
            "type": "x402-observation",
            "version": 0,
            "id": f"obs_{number:06}",
            "observer": {"id": "did:web:o.example#k", "address": self.address, "sequence": number},
            "issuedAt": int(issued.timestamp()),
            "verdict": {"code": "DELIVERED", "reason": "Payment settled.", "checks": {"x": 1.5}},
            "resourceUrl": url,
            "payment": {
                "network": "eip155:8453",
                "transaction": f"0x{number:064x}",
                "payer": "0x" + "7" * 40,
                "payTo": pay_to,
                "asset": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
                "amount": "1000",
            },
            "request": {"method": "GET", "url_hash": "0x5046", "params_hash": None},
            "response": {"status": 200, "responseHash": None, "bytes": 17},
            "scope": {"proves": ["payment-on-chain"]},
            "anchor": None,
            "corrections": [],
            "signature": None,
        }
        for name, value in members.items():
            record[name] = record[name] | value if isinstance(value, dict) else value
        return self.sign(record)

    def sign(self, record: Json) -> Json:
        """Return a record with the signature of its observer."""
        signed = copy.deepcopy(record)
        covered = {name: signed[name] for name in signed.keys() - {"anchor", "corrections"}}
        covered.pop("signature")
        message = {
            name: _member(signed, (STRINGS | NUMBERS)[name]) or ("" if name in STRINGS else 0)
            for name in ORDER
        }
        types = [
            {"name": name, "type": "string" if name in STRINGS else "uint256"} for name in ORDER
        ]
        encoded = load_library().messages.encode_typed_data(
            {"name": "x402 observation", "version": "1", "chainId": 1},
            {"Observation": [*types, {"name": "contentHash", "type": "bytes32"}]},
            message | {"contentHash": _keccak(import_module("rfc8785").dumps(covered))},
        )
        account = load_library().Account.from_key(self._number.to_bytes(32, "big"))
        assert account.address == self.address
        signature = account.sign_message(encoded).signature
        signed["signature"] = {"format": "eip712", "signature": f"0x{bytes(signature).hex()}"}
        return signed


def _member(record: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        record = record.get(key)
    return record


def _keccak(text: bytes) -> bytes:
    from eth_utils.crypto import keccak  # noqa: PLC0415  # of the extra

    return bytes(keccak(text))
