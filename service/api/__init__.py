"""What each path answers: parse parameters, ask the engine, respond; OpenAPI and llms.txt.

May import `http` and what is below it.
"""
