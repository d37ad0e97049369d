"""Assets that prices are stated in: well-known stablecoins, and those of test networks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol, TypeVar

from msgspec import Struct, UnsetType

from indexer.intake.rules import fold_address
from indexer.options import Stablecoin
from service.networks import network_key

# The network and the namespace of a CAIP-19 asset, as in `eip155:8453/erc20:0x…`.
_caip19 = re.compile(r"^[^/]*/(?:erc20|token|spl|asa|asset|nep141):")
# Names around an address: of an asset of Stellar (`USDC:G…`), and of a coin (`0x…::usdc::USDC`).
_named = re.compile(r"^(?:usdc[:-](?=g[a-z2-7]{55}$))|::usdc::usdc$", re.IGNORECASE)


class Asset(Struct, frozen=True):
    """A token: 10^`decimals` base units make one unit of the currency.

    `is_usd` tells the stablecoins of the US dollar.
    """

    currency: str
    decimals: int
    is_usd: bool = True


class Stablecoins:
    """The well-known stablecoins, and those of the operator, which take precedence."""

    def __init__(self, more: Iterable[Stablecoin] = ()) -> None:
        self.assets = _ASSETS | {
            (network_key(each.network), fold_address(each.address)): Asset(
                each.currency, each.decimals, each.usd
            )
            for each in more
        }
        """The assets by the key of their network and their address, hexadecimal in lower case."""
        self.find = lru_cache(maxsize=1024)(self._find)
        """Return the asset at an address, which may be a CAIP-19 asset, or None if unknown."""

    def _find(self, network: str, address: str) -> Asset | None:
        stripped = _named.sub("", _caip19.sub("", address, count=1), count=1)
        return self.assets.get((network_key(network), fold_address(stripped)))


def is_usd(currency: str) -> bool:
    """Return whether one unit of a currency, by its name in a record, is a US dollar."""
    return currency.casefold() in _USD_CURRENCIES


USDC = Asset("USDC", 6)
USDT = Asset("USDT", 6)
EURC = Asset("EURC", 6, is_usd=False)
BRIDGED_USDC = Asset("USDC.e", 6)
STELLAR_USDC = Asset("USDC", 7)

STABLECOINS = (
    ("base", USDC, "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"),
    ("base", EURC, "0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42"),
    ("base", USDT, "0xfde4C96c8593536E31F229EA8f37b2ADa2699bb2"),
    ("base", Asset("USDbC", 6), "0xd9aAEc86B65D86f6A7B5B1b0c42FFA531710b6CA"),
    ("base", Asset("DAI", 18), "0x50c5725949A6F0c72E6C4a641F24049A917DB0Cb"),
    ("base-sepolia", USDC, "0x036CbD53842c5426634e7929541eC2318f3dCF7e"),
    ("solana", USDC, "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"),
    ("solana", EURC, "HzwqbKZw8HxMN6bF2yFZNrht3c2iXXzpKcFu7uBEDKtr"),
    ("solana", USDT, "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB"),
    ("solana", Asset("PYUSD", 6), "2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo"),
    ("solana-devnet", USDC, "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU"),
    ("ethereum", USDC, "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"),
    ("ethereum", EURC, "0x1aBaEA1f7C830bD89Acc67eC4af516284b1bC33c"),
    ("ethereum", USDT, "0xdAC17F958D2ee523a2206206994597C13D831ec7"),
    ("ethereum", Asset("PYUSD", 6), "0x6c3ea9036406852006290770BEdFcAbA0e23A0e8"),
    ("ethereum", Asset("DAI", 18), "0x6B175474E89094C44Da98b954EedeAC495271d0F"),
    ("ethereum-sepolia", USDC, "0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238"),
    ("polygon", USDC, "0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359"),
    ("polygon", BRIDGED_USDC, "0x2791Bca1f2de4661ED88A30C99A7a9449Aa84174"),
    ("polygon", USDT, "0xc2132D05D31c914a87C6611C10748AEb04B58e8F"),
    ("polygon-amoy", USDC, "0x41E94Eb019C0762f9Bfcf9Fb1E58725BfB0e7582"),
    ("arbitrum", USDC, "0xaf88d065e77c8cC2239327C5EDb3A432268e5831"),
    ("arbitrum", BRIDGED_USDC, "0xFF970A61A04b1cA14834A43f5dE4533eBDDB5CC8"),
    ("arbitrum", USDT, "0xFd086bC7CD5C481DCC9C85ebE478A1C0b69FCbb9"),
    ("arbitrum-sepolia", USDC, "0x75faf114eafb1BDbe2F0316DF893fd58CE46AA4d"),
    ("optimism", USDC, "0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85"),
    ("optimism", USDT, "0x94b008aA00579c1307B0EF2c499aD98a8ce58e58"),
    ("avalanche", USDC, "0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E"),
    ("avalanche", EURC, "0xC891EB4cbdEFf6e073e859e987815Ed1505c2ACD"),
    ("avalanche", USDT, "0x9702230A8Ea53601f5cD2dc00fDBc13d4dF4A8c7"),
    ("avalanche-fuji", USDC, "0x5425890298aed601595a70AB815c96711a31Bc65"),
    ("bnb-chain", Asset("USDC", 18), "0x8AC76a51cc950d9822D68b83fE1Ad97B32Cd580d"),
    ("bnb-chain", Asset("USDT", 18), "0x55d398326f99059fF775485246999027B3197955"),
    ("gnosis", BRIDGED_USDC, "0x2a22f9c3b484c3629090FeED35F17Ff8F88f76F0"),
    ("celo", USDC, "0xcebA9300f2b948710d2653dD7B07f33A8B32118C"),
    ("celo", USDT, "0x48065fbBE25f71C9282ddf5e1cD6D6A887483D5e"),
    ("sei", USDC, "0xe15fC38F6D8c56aF07bbCBe3BAf5708A2Bf42392"),
    ("iotex", BRIDGED_USDC, "0xcdf79194c6c285077a58da47641d4dbe51f63542"),
    ("peaq", USDC, "0xbbA60da06c2c5424f03f7434542280FCAd453d10"),
    ("abstract", BRIDGED_USDC, "0x84A71ccD554Cc1b02749b35d22F684CC8ec987e1"),
    ("tempo", BRIDGED_USDC, "0x20C000000000000000000000b9537d11c60E8b50"),
    ("tempo", Asset("pathUSD", 6), "0x20c0000000000000000000000000000000000000"),
    ("xdc", USDC, "0xfA2958CB79b0491CC627c1557F441eF849Ca8eb1"),
    ("xlayer", Asset("USDC.e", 6), "0x74b7F16337b8972027F6196A17a631aC6dE26d22"),
    ("xlayer", USDT, "0x1E4a5963aBFD975d8c9021ce480b42188849D41d"),
    ("stellar", STELLAR_USDC, "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75"),
    ("stellar", STELLAR_USDC, "GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"),
    ("stellar:testnet", STELLAR_USDC, "CBIELTK6YBZJU5UP2WWQEUCYKLPU6AUNZ2BQ4WWFEIE3USCIHMXQDAMA"),
    ("algorand", USDC, "31566704"),
    ("algorand-testnet", USDC, "10458941"),
    ("hedera", USDC, "0.0.456858"),
    ("hedera-testnet", USDC, "0.0.429274"),
    ("aptos", USDC, "0xbae207659db88bea0cbead6da0ed00aac12edcdda169e591cd41c94180b46f3b"),
    ("aptos", USDT, "0x357b0b74bc833e95a115ad22604854d6b0fca151cecd94111770e5d6ffc9dc2b"),
    ("sui", USDC, "0xdba34672e30cb065b1f93e3ab55318768fd6fef66c15942c9f7cb846e2f900e7"),
    ("near", USDC, "17208628f84f5d6ad33f0da3bbbeb27ffcb398eac501a31bd6ad2011e36133a1"),
    ("near", USDT, "usdt.tether-token.near"),
    ("eip155:130", USDC, "0x078D782b760474a361dDA0AF3839290b0EF57AD6"),  # Unichain
    ("eip155:143", USDC, "0x754704Bc059F8C67012fEd69BC8A327a5aafb603"),  # Monad
    ("eip155:146", USDC, "0x29219dd400f2Bf60E5a23d13Be72B486D4038894"),  # Sonic
    ("eip155:324", USDC, "0x1d17CBcF0D6D143135aE902365D2E5e2A16538D4"),  # zkSync Era
    ("eip155:480", USDC, "0x79A02482A880bCe3F13E09da970dC34dB4cD24D1"),  # World Chain
    ("eip155:988", USDT, "0x779Ded0c9e1022225f8E0630b35a9b54bE713736"),  # Stable
    ("eip155:999", USDC, "0xb88339CB7199b77E23DB6E890353E22632Ba630f"),  # HyperEVM
    ("eip155:57073", USDC, "0x2D270e6886d130D724215A266106e6832161EAEd"),  # Ink
    ("eip155:59144", USDC, "0x176211869cA2b568f2A7D4EE941E073a821EE1ff"),  # Linea
    ("eip155:11142220", USDC, "0x01C5C0122039549AD1493B8220cABEdD739BC44E"),  # Celo Sepolia
)
_USD_CURRENCIES = frozenset(
    ("usd", *(asset.currency.casefold() for _, asset, _ in STABLECOINS if asset.is_usd))
)

_ASSETS = {
    (network_key(name), fold_address(address)): asset for name, asset, address in STABLECOINS
}

KNOWN_STABLECOINS = Stablecoins()


@lru_cache(maxsize=16)
def find_stablecoins(more: tuple[Stablecoin, ...]) -> Stablecoins:
    """Return the well-known stablecoins, and those of a policy."""
    return Stablecoins(more)


# Words in the names of test networks.
_WORDS = """
alfajores amoy apothem bepolia cardona chiado devnet fuji goerli holesky hoodi local localnet mumbai
sepolia test testnet
"""
_TEST_WORDS = frozenset(_WORDS.split())
# Test networks that service.networks does not name: Goerli, Apothem, X Layer until 2025, local
# nodes, Stable, IoTeX, Chiado, Holesky, Anvil and Hardhat, Mezo, Alfajores, Radius, Mumbai, Base
# Goerli, HPP Sepolia, Hoodi.
_CHAIN_IDS = """
5 51 195 1337 2201 4690 10200 17000 31337 31611 44787 72344 80001 84531 181228 560048
"""
_TEST_NETWORKS = frozenset(("cardano:preprod", *map(network_key, _CHAIN_IDS.split())))
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
