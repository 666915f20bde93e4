"""Asks the expressions of selectors about devices. The language's library takes its 24 MB only where there are devices."""

from controlplane.scheduler.devices.pools import Device


def select(expression: str, device: Device) -> bool:
    """Raises ValueError, in upstream's words, for an expression that cannot be compiled or has no answer."""
    from apimachinery.cel.device import CompileError, EvaluationError, selector

    try:
        return selector(expression).matches(device.id.driver, device.entry)
    except CompileError as error:
        raise ValueError(f"CEL compile error: {error}") from None
    except EvaluationError as error:
        raise ValueError(f"CEL runtime error: {error}") from None
