"""Options that several commands share: how results are ranked, and what searches them."""
