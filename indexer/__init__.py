"""The indexer: turns source records and payments into one immutable snapshot.

Imports run one way, from the first to the last: `cli`; `relevance`; `build`; `report`; `snapshot`,
`payments` and `catalogue`; `sources`; `x402` and `feeds`; `urls`, `text`, `progress`, `resources`,
`durable`, `options` and `errors`. Of `service` it imports what describes and reads a snapshot, and
in `cli` what answers a request.
"""
