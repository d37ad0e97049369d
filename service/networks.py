"""Names of payment networks, reduced to one key for each network."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# Label (as facets show the network), CAIP-2 identifier, and other names in use.
_NETWORKS = (
    ("Base", "eip155:8453", "base-mainnet"),
    ("Base Sepolia", "eip155:84532", "base-testnet"),
    ("Solana", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "solana-mainnet", "solana-mainnet-beta"),
    ("Solana Devnet", "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"),
    ("Solana Testnet", "solana:4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z"),
    ("Ethereum", "eip155:1", "ethereum-mainnet", "mainnet"),
    ("Ethereum Sepolia", "eip155:11155111", "sepolia"),
    ("Polygon", "eip155:137", "polygon-mainnet", "matic"),
    ("Polygon Amoy", "eip155:80002"),
    ("Arbitrum", "eip155:42161", "arbitrum-one", "arbitrum-mainnet"),
    ("Arbitrum Sepolia", "eip155:421614"),
    ("Optimism", "eip155:10", "op-mainnet", "optimism-mainnet"),
    ("Avalanche", "eip155:43114", "avalanche-mainnet", "avalanche-c-chain"),
    ("Avalanche Fuji", "eip155:43113", "avalanche-testnet"),
    ("BNB Chain", "eip155:56", "bsc", "bnb", "binance-smart-chain"),
    ("Gnosis", "eip155:100", "gnosis-mainnet", "xdai"),
    ("Celo", "eip155:42220", "celo-mainnet"),
    ("Sei", "eip155:1329", "sei-mainnet"),
    ("Sei Testnet", "eip155:1328"),
    ("IoTeX", "eip155:4689", "iotex-mainnet"),
    ("Peaq", "eip155:3338", "peaq-mainnet"),
    ("Abstract", "eip155:2741", "abstract-mainnet"),
    ("Abstract Testnet", "eip155:11124"),
    ("XDC", "eip155:50", "xdc-mainnet"),
    ("Tempo", "eip155:4217", "tempo-mainnet"),
)


def network_key(name: str) -> str:
    """Return the key of a network, the same for all its names; an unknown name is its own key."""
    key = _fold(name)
    return NETWORK_KEYS.get(key, key)


def network_label(name: str) -> str:
    """Return the label of a network, or the name as given if it is unknown."""
    return _LABELS.get(network_key(name), name)


def _fold(name: str) -> str:
    """Fold case and separators, and give the CAIP-2 identifier of a number or a Solana genesis.

    A bare number is an EVM chain id. CAIP-2 takes 32 characters of a genesis hash.
    """
    key = name.strip().casefold().replace(" ", "-").replace("_", "-")
    if key.isascii() and key.isdigit():
        return f"eip155:{key}"
    return key[: len("solana:") + 32] if key.startswith("solana:") else key


NETWORK_KEYS: Mapping[str, str] = MappingProxyType(
    {_fold(name): _fold(names[0]) for names in _NETWORKS for name in names}
)
"""The key of each known network by each of its names, in lower case with hyphens."""
_LABELS = {_fold(names[0]): names[0] for names in _NETWORKS}
