"""The writers of what `service` reads: index, postings, filters, records; publishing, comparing.

May import `service.search`, `service.snapshot`, `service.storage`, and of this package what lies
below the pipeline: `errors`, `durable`, `resources`, `text`, `progress`.
"""
