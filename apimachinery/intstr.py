"""IntOrString values such as ``maxSurge: 1`` or ``maxSurge: 25%`` and named or numbered ports."""

IntOrString = int | str


def percent(value: IntOrString) -> int | None:
    """The number before the ``%``, or None when ``value`` is no percentage."""
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdecimal():
        return int(value[:-1])
    return None


def scaled(value: IntOrString, total: int, *, round_up: bool) -> int:
    """An absolute number out of a number or a percentage of ``total``. Raises ValueError for other strings."""
    if not isinstance(value, str):
        return value
    part = percent(value)
    if part is None:
        raise ValueError("invalid value for IntOrString: invalid type: string is not a percentage")
    product = part * total
    return -(-product // 100) if round_up else product // 100
