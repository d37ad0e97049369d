"""The tools: arguments to answers, as structured content and as text.

May import `service.api` and what is below it; `definitions` alone imports the SDK.
"""
