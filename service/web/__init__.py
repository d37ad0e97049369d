"""The pages for people: templates, static files, and the values that fill them.

May import `api`, `http` and what is below them.
"""
