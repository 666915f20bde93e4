"""Values that the server chose, told apart by their type from values that a client asked for.

When the transaction that claims them loses a race, the registry asks for an allocation again, with the same object: a
picked value is then picked anew, while a requested one is an error. Both encode as what they are.
"""


class PickedText(str):
    """An address chosen by the pool, not by a client."""

    __slots__ = ()


class PickedNumber(int):
    """A port chosen by the pool, not by a client."""

    __slots__ = ()
