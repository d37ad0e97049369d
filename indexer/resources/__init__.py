"""Resources: what can be called and paid for, read from every kind of document into one form."""
