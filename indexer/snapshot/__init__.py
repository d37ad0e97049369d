"""Writers of resources, endpoints and ecosystem tables; rolling back and comparing snapshots."""
