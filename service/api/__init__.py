"""Handlers of all paths: parse parameters, ask the engine, respond; OpenAPI and llms.txt."""
