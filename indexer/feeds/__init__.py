"""Reading catalogues over HTTP: client, pages, walks, and the cache between builds."""
