"""Payment networks: one key for the many names of each."""

from __future__ import annotations

# Label, CAIP-2 identifier, and other names in the wild; the label is how facets show the network.
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
)


def network_key(name: str) -> str:
    """The same for every name of a network; a name that we do not know stands for itself."""
    key = _fold(name)
    return _KEYS.get(key, key)


def network_label(name: str) -> str:
    """How a network is shown: by its label if we know it, otherwise as it was given."""
    return _LABELS.get(network_key(name), name)


def labels_of_keys() -> dict[str, str]:
    """The label of every folded name that we know, for others who show networks."""
    return {name: _LABELS[key] for name, key in _KEYS.items()}


def _fold(name: str) -> str:
    """Case and the separator of words do not tell networks apart, nor the rest of a genesis hash.

    A CAIP-2 reference of Solana is the first 32 characters of its genesis hash.
    """
    key = name.strip().casefold().replace(" ", "-").replace("_", "-")
    return key[: len("solana:") + 32] if key.startswith("solana:") else key


_KEYS = {_fold(name): _fold(names[0]) for names in _NETWORKS for name in names}
_LABELS = {_fold(names[0]): names[0] for names in _NETWORKS}
