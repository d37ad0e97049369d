"""Assets that prices are stated in: the well-known stablecoins, and those of test networks."""
