"""Bringing scores of any size into 0 to 100."""

from controlplane.scheduler.framework.interface import MAX_SCORE


def by_highest(scores: list[int], *, reverse: bool = False) -> list[int]:
    """The highest becomes 100 and the others their part of it; ``reverse`` turns that around."""
    highest = max(scores, default=0)
    if highest == 0:
        return [MAX_SCORE] * len(scores) if reverse else scores
    scaled = [MAX_SCORE * score // highest for score in scores]
    return [MAX_SCORE - score for score in scaled] if reverse else scaled
