"""The pages for people: templates, static files, and the values that fill them."""
