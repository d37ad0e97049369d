"""Names of payment networks, reduced to one key for each network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

_evm_number = re.compile("^(?:evm|eip155)[:-]")

# Label (as facets show the network), CAIP-2 identifier, and other names in use.
_NETWORKS = (
    ("Base", "eip155:8453"),
    ("Base Sepolia", "eip155:84532", "base-testnet"),
    ("Solana", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "solana-mainnet-beta", "sol", "svm"),
    ("Solana Devnet", "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"),
    ("Solana Testnet", "solana:4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z"),
    ("Ethereum", "eip155:1", "mainnet", "eth"),
    ("Ethereum Sepolia", "eip155:11155111", "sepolia", "eth-sepolia"),
    ("Polygon", "eip155:137", "polygon-pos", "matic"),
    ("Polygon Amoy", "eip155:80002", "matic-amoy", "amoy", "polygon-testnet"),
    ("Arbitrum", "eip155:42161", "arbitrum-one", "arb"),
    ("Arbitrum Sepolia", "eip155:421614", "arbitrum-testnet"),
    ("Optimism", "eip155:10", "op"),
    ("Optimism Sepolia", "eip155:11155420", "op-sepolia"),
    ("Avalanche", "eip155:43114", "avalanche-c-chain", "avax"),
    ("Avalanche Fuji", "eip155:43113", "avalanche-testnet", "fuji"),
    ("BNB Chain", "eip155:56", "bsc", "bnb", "binance-smart-chain"),
    ("BNB Chain Testnet", "eip155:97", "bsc-testnet", "bnb-testnet"),
    ("Gnosis", "eip155:100", "xdai"),
    ("Celo", "eip155:42220"),
    ("Celo Sepolia", "eip155:11142220"),
    ("Sei", "eip155:1329", "sei-pacific", "sei-pacific-1"),
    ("Sei Testnet", "eip155:1328", "sei-atlantic", "sei-atlantic-2"),
    ("IoTeX", "eip155:4689"),
    ("Peaq", "eip155:3338"),
    ("Abstract", "eip155:2741"),
    ("Abstract Testnet", "eip155:11124"),
    ("XDC", "eip155:50"),
    ("Tempo", "eip155:4217"),
    ("Stellar", "stellar:pubnet", "stellar-public", "stellar:public", "xlm"),
    ("Stellar Testnet", "stellar:testnet"),
    ("Algorand", "algorand:wGHE2Pwdvd7S12BL5FaOP20EGYesN73k", "algo", "avm"),
    ("Algorand Testnet", "algorand:SGO1GKSzyE7IEPItTxCByw9x8FmnrCDe"),
    ("Hedera", "hedera:mainnet", "eip155:295", "hbar"),
    ("Hedera Testnet", "hedera:testnet", "eip155:296"),
    ("Aptos", "aptos:1"),
    ("Aptos Testnet", "aptos:2"),
    ("Sui", "sui:mainnet", "sui:35834a8a"),
    ("Sui Testnet", "sui:testnet", "sui:4c78adac"),
    ("NEAR", "near:mainnet"),
    ("NEAR Testnet", "near:testnet"),
    ("TON", "tvm:-239", "ton:mainnet"),
    ("Tron", "tron:mainnet", "tron:0x2b6653dc", "trx"),
    ("XRP Ledger", "xrpl:0", "xrpl", "xrp"),
    ("XRP Ledger Testnet", "xrpl:1", "xrp-testnet"),
    ("Starknet", "starknet:SN_MAIN", "strk"),
    ("Cosmos Hub", "cosmos:cosmoshub-4", "cosmos"),
    ("Noble", "cosmos:noble-1"),
    ("Stacks", "stacks:1", "stx"),
    ("Bitcoin", "bip122:000000000019d6689c085ae165831e93", "btc", "lightning"),
    ("X Layer", "eip155:196", "xlayer", "okx"),
    ("X Layer Testnet", "eip155:1952", "xlayer-testnet"),
    ("Unichain", "eip155:130"),
    ("Unichain Sepolia", "eip155:1301"),
    ("Monad", "eip155:143"),
    ("Monad Testnet", "eip155:10143"),
    ("Sonic", "eip155:146"),
    ("World Chain", "eip155:480", "worldchain", "world"),
    ("World Chain Sepolia", "eip155:4801", "worldchain-sepolia"),
    ("zkSync Era", "eip155:324", "zksync", "era"),
    ("zkSync Sepolia", "eip155:300"),
    ("Stable", "eip155:988"),
    ("HyperEVM", "eip155:999", "hyperliquid", "hype"),
    ("Ink", "eip155:57073"),
    ("Linea", "eip155:59144"),
    ("Linea Sepolia", "eip155:59141"),
    ("Scroll", "eip155:534352"),
    ("Scroll Sepolia", "eip155:534351", "scroll-testnet"),
    ("Mantle", "eip155:5000"),
    ("Blast", "eip155:81457"),
    ("Mode", "eip155:34443"),
    ("Plasma", "eip155:9745"),
    ("Berachain", "eip155:80094", "bera"),
    ("MegaETH", "eip155:4326"),
    ("Cronos", "eip155:25"),
    ("Fantom", "eip155:250"),
    ("Soneium", "eip155:1868"),
    ("Lisk", "eip155:1135"),
    ("Story", "eip155:1514"),
    ("Kaia", "eip155:8217"),
    ("Arc Testnet", "eip155:5042002"),
    ("0G", "eip155:16661", "0g"),
)
_TEST = ("Sepolia", "Testnet", "Devnet", "Amoy", "Fuji")


def network_key(name: str) -> str:
    """Return the key of a network, the same for all its names; an unknown name is its own key."""
    key = _fold(name)
    known = NETWORK_KEYS.get(key) or NETWORK_KEYS.get(key.replace(":mainnet", "-mainnet"))
    return known or key


def network_label(name: str) -> str:
    """Return the label of a network, or the name as given if it is unknown."""
    return _LABELS.get(network_key(name), name)


def _fold(name: str) -> str:
    """Fold case and separators, and give the CAIP-2 identifier of a number or a Solana genesis.

    A bare number is an EVM chain id. CAIP-2 takes 32 characters of a genesis hash.
    """
    key = name.strip().casefold().replace(" ", "-").replace("_", "-")
    number = _evm_number.sub("", key)
    if number.isascii() and number.isdigit():
        return f"eip155:{number}"
    return key[: len("solana:") + 32] if key.startswith("solana:") else key


def _names(label: str, *names: str) -> tuple[str, ...]:
    """Return the names of a network, of a main one also those that say so."""
    given = label, *names
    if label.endswith(_TEST):
        return given
    return (*given, *(f"{name}-mainnet" for name in given if ":" not in name))


NETWORK_KEYS: Mapping[str, str] = MappingProxyType(
    {_fold(name): _fold(names[0]) for names in _NETWORKS for name in _names(*names)}
)
"""The key of each known network by each of its names, in lower case with hyphens."""
_LABELS = {_fold(names[0]): names[0] for names in _NETWORKS}
