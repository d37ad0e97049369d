"""The schema of the OpenAPI document of a service."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from service.schema.values import ServiceId, Whole


class DocumentCounts(Struct, rename="camel"):
    """The endpoints of a service, and how many of them its document leaves out."""

    service: ServiceId
    endpoints: Whole
    left_out: Whole


class ServiceDocument(Struct, kw_only=True):
    """An OpenAPI 3.1 document of a service, with `x-payment-info` of its ways to pay.

    `x-ratecard` counts the endpoints that OpenAPI cannot express.
    """

    openapi: str
    info: dict[str, Any]
    servers: list[dict[str, Any]]
    paths: dict[str, dict[str, Any]]
    counts: DocumentCounts = field(name="x-ratecard")
