"""What every request passes before an endpoint sees it. The order is written in ``chain.py``, one filter a file."""
