import pytest

from controlplane.controllers import ttl


@pytest.mark.parametrize(
    ("nodes", "coming_from", "seconds"),
    [
        (0, 0, 0),
        (100, 0, 0),
        (101, 0, 15),
        (90, 1, 15),  # the bounds overlap: nothing changes back at once
        (89, 1, 0),
        (5000, 0, 300),
        (1799, 4, 60),
        (0, 5, 0),
        (50_000, 3, 600),
    ],
)
def test_the_more_nodes_the_longer(nodes: int, coming_from: int, seconds: int) -> None:
    assert ttl.seconds_of(ttl.step_for(nodes, coming_from)) == seconds
