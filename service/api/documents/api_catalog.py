"""The API catalogue of RFC 9727: links to the documents of this service, and of each listed one."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request

from service.api.query_string import LongLimit, Offset, Operation
from service.http.context import context_of, snapshot_of
from service.http.responses import Cacheable, root_of
from service.schema.documents import Linkset
from service.settings import Settings

PATH = "/.well-known/api-catalog"
PROFILE = "https://www.rfc-editor.org/info/rfc9727"
MEDIA_TYPE = "application/linkset+json"
OPENAPI = "application/vnd.oai.openapi+json;version=3.1"

Links = list[dict[str, str]]


class ListApis(Operation, frozen=True, kw_only=True):
    """List the API descriptions of this service and of the services that it lists."""

    limit: LongLimit = 100
    offset: Offset = 0


async def get_api_catalog(request: Request, page: ListApis) -> Cacheable:
    """Return a page of the linkset, services in listing order."""
    snapshot = snapshot_of(request)
    root = root_of(request.scope)
    services = [snapshot.id_table[each] for each in snapshot.list(page.limit, page.offset).ordinals]
    catalogue: dict[str, Any] = {
        "anchor": f"{root}{PATH}",
        "item": [{"href": f"{root}/openapi.json", "type": OPENAPI}],
    }
    if (stop := page.offset + page.limit) < len(snapshot.id_table):
        following = f"{root}{PATH}?limit={page.limit}&offset={stop}"
        catalogue["next"] = [{"href": following, "type": MEDIA_TYPE}]
    linkset = [
        {"anchor": f"{root}/", **_own_links(root, context_of(request).settings)},
        catalogue,
        *(_links_of(f"{root}/v1/services/{service_id}") for service_id in services),
    ]
    body = msgspec.json.encode(Linkset(linkset))
    link = {"link": f'<{root}{PATH}>; rel="api-catalog"'}
    return Cacheable(body, f'{MEDIA_TYPE}; profile="{PROFILE}"', link)


def _own_links(root: str, settings: Settings) -> dict[str, Links]:
    links: dict[str, Links] = {
        "service-desc": [{"href": f"{root}/openapi.json", "type": OPENAPI}],
        "service-doc": [{"href": f"{root}/llms.txt", "type": "text/plain"}],
        "status": [{"href": f"{root}/readyz", "type": "application/json"}],
        "item": [
            {"href": f"{root}/v1/services", "type": "application/json"},
            {"href": f"{root}/discovery/resources", "type": "application/json"},
        ],
    }
    if settings.page:
        links["service-doc"].insert(0, {"href": f"{root}/docs", "type": "text/html"})
    return links


def _links_of(address: str) -> dict[str, Any]:
    description = {"href": f"{address}/openapi.json", "type": OPENAPI}
    return {
        "anchor": address,
        "service-desc": [description],
        "service-meta": [{"href": address, "type": "application/json"}],
    }
