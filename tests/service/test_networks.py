"""Names of payment networks."""

from __future__ import annotations

import pytest

from service.networks import network_key


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("base-mainnet", "eip155:8453"),
        ("base-testnet", "eip155:84532"),
        ("Base Sepolia", "base_sepolia"),
        ("mainnet", "Ethereum"),
        ("sepolia", "eip155:11155111"),
        ("avalanche-testnet", "eip155:43113"),
        ("stellar-mainnet", "stellar:pubnet"),
        ("algorand-mainnet", "Algorand"),
        ("hedera:mainnet", "hedera_mainnet"),
        ("bsc-mainnet", "BNB Chain"),
        ("xlayer", "eip155:196"),
        ("solana-mainnet-beta", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"),
        ("Solana", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKpBHvNsQ4bVn"),
        ("polygon", "eip155:137"),
        ("Newnet", "newnet"),
    ],
)
def test_names_of_one_network_have_one_key(name: str, same: str) -> None:
    assert network_key(name) == network_key(same)


def test_a_test_network_is_not_the_main_one() -> None:
    names = ("base", "base-testnet", "solana", "solana-devnet", "ethereum", "sepolia", "avalanche")
    assert len({network_key(name) for name in (*names, "avalanche-testnet")}) == len(names) + 1


@pytest.mark.parametrize("name", ["base:mainnet", "eip155-8453", "evm:8453", "EVM-8453", 8453])
def test_any_separator_and_prefix_of_a_number_is_the_same_network(name: object) -> None:
    assert network_key(str(name)) == network_key("base")
