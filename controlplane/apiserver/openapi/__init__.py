"""OpenAPI documents, generated from the schema and from what is served.

``operations`` says which paths exist and what they take; ``definitions`` describes types; ``v3`` and ``v2`` write both down in
their formats. Clients use them to explain fields, to validate, and to learn whether the server validates (kubectl looks for
``fieldValidation`` on PATCH). Building takes a moment and is not for the event loop: call from a thread.
"""
