"""Resources of x402 discovery feeds to services."""
