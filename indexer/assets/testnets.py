"""Test networks, whose tokens are worth nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol, TypeVar

from msgspec import UnsetType

from service.networks import network_key

# Words in the names of test networks.
_WORDS = """
alfajores amoy apothem bepolia cardona chiado devnet fuji goerli holesky hoodi local localnet mumbai
sepolia test testnet
"""
_TEST_WORDS = frozenset(_WORDS.split())
# Test networks without a name in service.networks.
_TEST_NETWORKS = frozenset(
    network_key(name)
    for name in (
        "algorand:SGO1GKSzyE7IEPItTxCByw9x8FmnrCDe",
        "aptos:2",
        "cardano:preprod",
        "eip155:5",  # Ethereum Goerli
        "eip155:51",  # XDC Apothem
        "eip155:97",  # BNB Chain
        "eip155:195",  # X Layer, until 2025
        "eip155:300",  # zkSync Era Sepolia
        "eip155:1301",  # Unichain Sepolia
        "eip155:1337",  # local nodes
        "eip155:1952",  # X Layer
        "eip155:2201",  # Stable
        "eip155:4690",  # IoTeX
        "eip155:4801",  # World Chain Sepolia
        "eip155:10143",  # Monad
        "eip155:10200",  # Gnosis Chiado
        "eip155:17000",  # Ethereum Holesky
        "eip155:31337",  # local nodes of Anvil and Hardhat
        "eip155:31611",  # Mezo
        "eip155:44787",  # Celo Alfajores
        "eip155:59141",  # Linea Sepolia
        "eip155:72344",  # Radius
        "eip155:80001",  # Polygon Mumbai
        "eip155:84531",  # Base Goerli
        "eip155:181228",  # HPP Sepolia
        "eip155:534351",  # Scroll Sepolia
        "eip155:560048",  # Ethereum Hoodi
        "eip155:5042002",  # Arc
        "eip155:11142220",  # Celo Sepolia
        "eip155:11155420",  # Optimism Sepolia
        "xrpl:1",
    )
)
_separator = re.compile(r"[-:./]|\d+$")


class OnNetwork(Protocol):
    """A price on a payment network."""

    @property
    def network(self) -> str | UnsetType:
        """A label, a CAIP-2 identifier or another name; may be empty or unset."""


AnyPrice = TypeVar("AnyPrice", bound=OnNetwork)


@lru_cache(maxsize=1024)
def is_test_network(name: str) -> bool:
    """Whether a network is a test network, by its number or its name."""
    key = network_key(name)
    return key in _TEST_NETWORKS or not _TEST_WORDS.isdisjoint(_separator.split(key))


def mainnet_prices(prices: Iterable[AnyPrice]) -> list[AnyPrice]:
    """Return the prices on main networks, or all of them if there are none."""
    prices = list(prices)
    return [price for price in prices if not is_test_network(price.network or "")] or prices
