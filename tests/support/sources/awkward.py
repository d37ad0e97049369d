"""Services whose text is hard to show: hostile, long, or written from right to left."""

from __future__ import annotations

from tests.support.running import Json, service

HARM = "touch harm"
TEXTS = (
    "<script>alert(1)</script>",
    "<img src=harm onerror=alert(1)>",
    "</template></noscript></title><svg onload=alert(1)>",
    '" autofocus onfocus="alert(1)" x="',
    "' onmouseover='alert(1)' x='",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "{{7*7}} ${7*7} {% raw %}",
    "constructor",
    "__proto__",
    "\u202egnitset\u202c \u2066and\u2069 \u200frest",
    f"'; {HARM}; '",
    f"$({HARM}) `{HARM}` \\",
    f"a\n{HARM}\n#",
    f"-o harm\t| {HARM} & {HARM} > harm",
    "@/etc/passwd",
    "W" * 300,
    "مرحبا بكم في خدمة الطقس الدولية",
    "🏴‍☠️ ﷽ Ｗ\u0301\u0302\u0303",
)
ADDRESSES = (
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "//elsewhere.example/'",
    f"https://elsewhere.example/'; {HARM}; '",
    f"https://elsewhere.example/$({HARM})?`{HARM}`#{HARM}",
    f"https://elsewhere.example/a\n{HARM}\n",
    f"https://user:'{HARM}'@elsewhere.example/\u202e[1-9]/{{a,b}}",
    f"https://elsewhere.example/:{'w' * 400}",
)


def hostile() -> list[Json]:
    """Return a service for each of `TEXTS`, with the text in every field that can hold it."""
    return [_hostile(f"hostile-{number:02}", text) for number, text in enumerate(TEXTS)]


def _hostile(service_id: str, text: str) -> Json:
    return service(
        service_id,
        name=text,
        description=text,
        provider=text,
        category=text,
        networks=[text],
        tags=[text],
        serviceName=text,
        providerUrl=text,
        iconUrl=text,
        endpoints=[hostile_endpoint(url, text) for url in (text, *ADDRESSES)],
    )


def hostile_endpoint(url: str, text: str) -> Json:
    """Return an endpoint with the text in every field but its URL."""
    return {
        "url": url,
        "method": text,
        "description": text,
        "pricing": {"amount": "0.01", "currency": text, "network": text, "scheme": text},
        "parameters": [
            {
                "group": group,
                "name": name,
                "type": "string",
                "description": text,
                "example": text,
                "default": {text: [text]},
                "enumValues": [text],
                "required": True,
            }
            for group in ("path", "query", "body")
            for name in (text, "w" * 400)
        ],
    }
