"""Publishing copies: the pointer of an artifacts folder, and pushing snapshots to object stores.

Replicas (`service.replicas`) fetch them. Stores need the extra `replica`, signatures `signing`.
"""
