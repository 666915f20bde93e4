"""API aggregation: group versions that other servers answer for, behind Services that APIServices name.

``services`` follows the APIServices; ``proxy`` passes requests on; ``availability`` says whom they may go to; ``registration``
makes those of our own versions; ``discovery`` and ``openapi`` merge what all servers say of themselves, which ``documents``
fetches.
"""
