"""Shuffle sharding: the few of a level's queues that one flow may use.

Two flows rarely share all of them, so a flow that fills its own leaves another at least one that is empty. Used by ``control``.
"""

import hashlib

MAX_BITS = 60  # of the hash that a deal may use up; validation refuses shapes that need more


def flow_hash(schema: str, distinguisher: str) -> int:
    """64 bits that stand for a flow, upstream's: every API server deals a flow the same hand."""
    digest = hashlib.sha256(schema.encode() + b"\0" + distinguisher.encode(errors="surrogateescape")).digest()
    return int.from_bytes(digest[:8], "little")


def deal(value: int, deck: int, hand: int) -> tuple[int, ...]:
    """``hand`` different numbers below ``deck`` that follow from ``value``, each hand about as likely as any other."""
    drawn: list[int] = []
    for position in range(hand):
        value, card = divmod(value, deck - position)
        drawn.append(card)
    cards: list[int] = []
    for position, card in enumerate(drawn):
        for earlier in reversed(drawn[:position]):
            card += card >= earlier
        cards.append(card)
    return tuple(cards)
