"""Programs that call an endpoint and pay, in Python and TypeScript, to paste and run."""

from __future__ import annotations

import json
import math
from decimal import Decimal

from service.api.documents.curl import call_of
from service.bodies import encode_body, media_type_of
from service.prices import is_ceiling, is_of_unit
from service.schema.records import Endpoint, Pricing

DEFAULT_LIMIT = 10_000
"""Millionths: a cent."""
PYTHON = """\
# pip install "x402[httpx,evm]"
import asyncio, os
from eth_account import Account
from x402 import max_amount, x402Client
from x402.http.clients import x402HttpxClient
from x402.mechanisms.evm import EthAccountSigner
from x402.mechanisms.evm.exact import ExactEvmScheme

async def main():
    signer = EthAccountSigner(Account.from_key(os.environ["WALLET_KEY"]))
    client = x402Client().register("eip155:*", ExactEvmScheme(signer=signer))
    client.register_policy(max_amount({limit}))  # base units of a token of 6 decimals
    async with x402HttpxClient(client) as http:
        response = await http.request({arguments})
        print(response.status_code, response.text)

asyncio.run(main())
"""
TYPESCRIPT = """\
// npm install @x402/fetch @x402/evm viem
import {{ wrapFetchWithPaymentFromConfig }} from "@x402/fetch";
import {{ ExactEvmScheme }} from "@x402/evm";
import {{ privateKeyToAccount }} from "viem/accounts";

const account = privateKeyToAccount(process.env.WALLET_KEY as `0x${{string}}`);
const pay = wrapFetchWithPaymentFromConfig(fetch, {{
  schemes: [{{ network: "eip155:*", client: new ExactEvmScheme(account) }}],
  // base units of a token of 6 decimals, such as USDC
  policies: [(_, terms) => terms.filter(({{ amount }}) => BigInt(amount) <= {limit}n)],
}});
const response = await pay({arguments});
console.log(response.status, await response.text());
"""


def snippets(endpoint: Endpoint) -> dict[str, str]:
    """Return programs by language, none where the call or its body cannot be written.

    They pay the listed price at most, or DEFAULT_LIMIT where no price of a request is listed.
    Texts of sellers are in ASCII literals: they end no literal, and hide no character.
    """
    call = call_of(endpoint)
    if call is None:
        return {}
    words, options = "", ""
    if call.content:
        media_type = media_type_of(endpoint.body_type)
        body = encode_body(media_type, call.content, is_whole=endpoint.whole_body is True)
        if body is None:
            return {}
        header, text = f'{{"Content-Type": "{media_type}"}}', body.decode()
        words = f", headers={header}, content={text!a}"
        options = f", headers: {header}, body: {json.dumps(text)}"
    url, limit = json.dumps(call.url), _limit_of(endpoint.pricing)
    arguments = f'"{call.method}", {url}{words}'
    programs = {"Python": PYTHON.format(arguments=arguments, limit=limit)}
    if not call.content or call.method != "GET":  # which `fetch` refuses
        arguments = f'{url}, {{ method: "{call.method}"{options} }}'
        programs["TypeScript"] = TYPESCRIPT.format(arguments=arguments, limit=limit)
    return programs


def _limit_of(pricing: Pricing) -> int:
    """Return the most to pay for a request, in millionths."""
    amount = pricing.max_amount or pricing.amount if is_ceiling(pricing) else pricing.amount
    if not amount or is_of_unit(pricing.unit_type):
        return DEFAULT_LIMIT
    return math.ceil(Decimal(amount) * 10**6)
