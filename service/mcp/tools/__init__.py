"""The tools: arguments to answers, as structured content and as text.

`definitions` alone imports the SDK.
"""
