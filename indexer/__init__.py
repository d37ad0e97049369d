"""The indexer: turns source records and payments into one immutable snapshot.

Imports run one way, from the first to the last: `cli`; `relevance`; `build`; `report`; `payments`
and `catalogue`; `snapshot`; `x402`; `sources`; `feeds`; `urls`, `text`, `progress`, `resources`,
`options` and `errors`. Of `service` it imports what describes and reads a snapshot, and
in `cli` what answers a request.
"""
