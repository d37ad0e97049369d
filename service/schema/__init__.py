"""The public schema: types that validate sources, and describe the responses of the API."""
