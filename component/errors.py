"""The one exception that ``component.daemon`` shows as a sentence instead of a traceback."""


class OperatorError(Exception):
    """Something the operator can mend, or should simply know: a bad file, a lost lease. The text says what and where."""
