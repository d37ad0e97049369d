"""OpenAPI 3 documents: their paid operations as resources, priced in the two dialects in use."""
