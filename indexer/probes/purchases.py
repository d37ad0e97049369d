"""Purchases: records of paid calls, `x402-observation` of version 0, signed by their observers."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import reduce
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from indexer.errors import IndexerError, InvalidRecord, LeftOut
from indexer.intake.rules import fold_address
from indexer.probes.observation import MAX_STATUS, Observation, Outcome, ShortText
from indexer.text import decode_or_invalid
from indexer.untrusted import mapping, url_or_invalid
from service.errors import needs_extra
from service.networks import network_key
from service.urls import MAX_URL

STRANGE = "purchases of observers that the source does not name"
DOMAIN = {"name": "x402 observation", "version": "1", "chainId": 1}
UNKNOWN = "UNKNOWN"
"""The method of a record that has none, which endpoints have that declare none."""
UNSIGNED = ("anchor", "corrections", "signature")
"""Members of a record that its signature does not cover."""

RequiredText = Annotated[ShortText, Meta(min_length=1)]
Natural = Annotated[int, Meta(ge=0, le=2**53 - 1)]
Status: Any = Annotated[int, Meta(ge=0, le=MAX_STATUS)] | None
FIELDS: dict[str, tuple[str, Any]] = {
    "version": ("version", Literal[0]),
    "id": ("id", RequiredText),
    "sequence": ("observer.sequence", Natural),
    "verdict": ("verdict.code", Literal["DELIVERED", "MISMATCH", "NOT_DELIVERED", "UNCLEAR"]),
    "network": ("payment.network", RequiredText),
    "resourceUrl": ("resourceUrl", Annotated[str, Meta(min_length=1, max_length=MAX_URL)]),
    "payer": ("payment.payer", ShortText),
    "payTo": ("payment.payTo", RequiredText),
    "asset": ("payment.asset", ShortText),
    "amount": ("payment.amount", ShortText),
    "transaction": ("payment.transaction", RequiredText),
    "httpStatus": ("response.status", Status),
    "responseHash": ("response.responseHash", ShortText | None),
    "responseHashAlg": ("response.responseHashAlg", ShortText | None),
    "responseHashEncoding": ("response.responseHashEncoding", ShortText | None),
    "issuedAt": ("issuedAt", Natural),
}
"""The signed message, in order: the path and the type of each field in a record."""
NUMBERS = frozenset(("version", "sequence", "httpStatus", "issuedAt"))
TYPES = [
    *({"name": name, "type": "uint256" if name in NUMBERS else "string"} for name in FIELDS),
    {"name": "contentHash", "type": "bytes32"},
]

_type = re.compile(rb'"type"\s*:\s*"x402-observation"')
_object = msgspec.json.Decoder(dict[str, Any])


def is_purchase(text: bytes) -> bool:
    """Whether a record says that it is a purchase, and no observation of a prober."""
    return _type.search(text) is not None


class Purchase(Observation, kw_only=True):
    """An observation of a paid call.

    payee: the address that was paid, in lower case where it is hexadecimal
    """

    URL: ClassVar[str] = "$.resourceUrl"
    TIME: ClassVar[str] = "$.issuedAt"
    payee: str
    bought: tuple[Any, ...]  # type: ignore[misc]  # of a record, where lines have none


class PurchaseReader:
    """Reads records of these observers; raises IndexerError where libraries are missing."""

    def __init__(self, observers: Iterable[str]) -> None:
        self._observers = frozenset(map(str.lower, observers))
        if not self._observers:
            return
        limit = sys.getrecursionlimit()
        try:
            import rfc8785  # noqa: PLC0415  # optional
            from eth_account import Account, messages  # noqa: PLC0415
            from eth_hash.auto import keccak  # noqa: PLC0415
        except ImportError as error:
            raise IndexerError(needs_extra("checking `observers`", "deliveries")) from error
        finally:  # py_ecc raises it to 100,000: nested JSON would overflow the stack
            sys.setrecursionlimit(limit)
        self._canonical, self._keccak = rfc8785.dumps, keccak
        self._encode, self._recover = messages.encode_typed_data, Account.recover_message

    def read(self, text: bytes) -> Purchase:
        """Read a record; raises InvalidRecord for a malformed one, or where no observer signed."""
        values = decode_or_invalid(_object, text)
        message = {name: _read(values, *field) for name, field in FIELDS.items()}
        url_or_invalid(message["resourceUrl"], "$.resourceUrl")
        observer = _read(values, "observer.address", RequiredText).lower()
        if observer not in self._observers:
            raise LeftOut(STRANGE, "$.observer.address", "is not among `observers` of the source")
        try:
            signed = {name: values[name] for name in values if name not in UNSIGNED}
            message["contentHash"] = digest = self._keccak(self._canonical(signed))
            encoded = self._encode(DOMAIN, {"Observation": TYPES}, message)
            signature = _read(values, "signature.signature", RequiredText)
            signer = self._recover(encoded, signature=signature)
        except Exception as error:  # the libraries have errors of many types
            raise InvalidRecord("$.signature", "is no signature of this record") from error
        if signer.lower() != observer:
            raise InvalidRecord("$.signature", "is not that of the observer, or of another record")
        payment = f"{network_key(message['network'])} {fold_address(message['transaction'])}"
        is_delivered = message["verdict"] == "DELIVERED"
        return Purchase(
            url=message["resourceUrl"],
            method=_read(values, "request.method", ShortText | None) or UNKNOWN,
            observed_at=message["issuedAt"],
            outcome=Outcome.ANSWERED,
            payee=fold_address(message["payTo"]),
            bought=(observer, message["id"], payment, digest.hex(), is_delivered),
        )


def _read(values: dict[str, Any], path: str, kind: Any) -> Any:
    """Return the member at a path, or for null the empty text or 0, as messages have it."""
    *parents, name = path.split(".")
    try:
        value = msgspec.convert(reduce(mapping, parents, values).get(name), kind)
    except msgspec.ValidationError as error:
        raise InvalidRecord(f"$.{path}", str(error)) from error
    return (0 if kind is Status else "") if value is None else value
