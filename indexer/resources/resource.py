"""Resources: a call that can be paid for, in one form whatever document describes it."""

from __future__ import annotations

from msgspec import Raw, Struct

from indexer.intake.findings import Notice
from indexer.resources.entries import Entry
from service.schema.discovery import Requirement
from service.schema.records import ParameterDescriptor, Pricing

NEVER = -1
"""The moment of a date that is missing, or no date."""


class ServiceTexts(Struct, array_like=True, frozen=True):
    """The texts of a document on its service, empty where there are none.

    guidance: `info.x-guidance` or `instructions`, for agents
    info: the object `x-service-info` as JSON
    has_names: whether the service is named by the resources of the document alone
    url: of the service, which its endpoints are below
    integration: `1P` or `3P`
    """

    description: str = ""
    guidance: str = ""
    info: bytes = b""
    has_names: bool = True
    url: str = ""
    provider: str = ""
    provider_url: str = ""
    integration: str = ""
    status: str = ""


class Resource(Struct, array_like=True, gc=False, kw_only=True):
    """A call that can be paid for; texts are empty and dates NEVER where nothing is stated.

    url: to call, with the route template in place of its path if there is one
    given, identity: the normalised URL as stated, and that of `url`
    domain: of the service; host: without the port
    tool: the name of the MCP tool, whose server `url` is
    tool_url: the normalised identifier of a tool, where it stood for the URL
    updated, called: the last change and the last call, in microseconds of Unix time
    body_type: the media type of the body where it is stated, as in `multipart/form-data`
    entries: those of `accepts`, in their order
    offers: those of documents
    chosen: the number of the entry that is the price, of `entries` or else of `offers`
    pricing: made of the chosen entry
    place: the JSON path of the payment, for notices
    example_url: can be called in place of a template
    transport: of an MCP tool
    advice: the faults that the seller can mend, as bits of `Advice`
    texts: of the document on the service; None for a resource of a feed
    text: JSON of a feed's resource as `/discovery` lists it; empty for resources of documents
    displaced: members of an object `resource` that the resource itself has with other values
    type, extensions, listed_tags: of the text, which filters compare
    """

    url: str
    given: str
    identity: str
    host: str
    domain: str
    is_http: bool = False
    is_private: bool = False
    method: str = ""
    tool: str = ""
    tool_url: str = ""
    updated: int = NEVER
    called: int = NEVER
    service_name: str = ""
    description: str = ""
    category: str = ""
    tags: list[str] = []
    icon_url: str = ""
    calls: int | None = None
    payers: int | None = None
    entries: list[Entry] = []
    offers: list[Entry] = []
    chosen: int = 0
    pricing: Pricing
    place: str = ""
    parameters: list[ParameterDescriptor] = []
    body_type: str = ""
    output: str = ""
    example_url: str = ""
    transport: str = ""
    requires: list[Requirement] = []
    notices: list[Notice] = []
    advice: int = 0
    texts: ServiceTexts | None = None
    text: bytes = b""
    displaced: dict[str, Raw] = {}
    type: str = ""
    extensions: list[str] = []
    listed_tags: list[str] = []

    @property
    def key(self) -> str:
        """The key that no other resource has, and that orders the listings of a service."""
        return f"{self.identity}\n{self.method}\n{self.tool}"

    @property
    def is_listed(self) -> bool:
        """Whether `/discovery` lists it: whether it came from a feed with a way to pay."""
        return self.text != b""
