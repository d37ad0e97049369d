"""The schema of the OpenAPI document of a service."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

from service.schema.values import ServiceId, Whole


class DocumentCounts(Struct, rename="camel"):
    """The endpoints of a service, and what its document leaves out, by reason."""

    service: ServiceId
    endpoints: Whole
    left_out: dict[str, Whole]


class ServiceDocument(Struct, kw_only=True):
    """An OpenAPI 3.1 document of a service, with `x-payment-info` of its ways to pay.

    `x-ratecard` counts what OpenAPI or the dialects cannot express.
    """

    openapi: str
    info: dict[str, Any]
    servers: list[dict[str, Any]]
    paths: dict[str, dict[str, Any]]
    service_info: dict[str, Any] | UnsetType = field(default=UNSET, name="x-service-info")
    counts: DocumentCounts = field(name="x-ratecard")
