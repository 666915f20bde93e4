"""Structured logs: a sentence plus named values, written to stderr as klog's text or as JSON lines.

``log = logs.get(__name__)``; ``log.info("Pod started", pod="default/web")``; ``log.v(4, "Skipped", node=name)`` costs one
comparison while ``--v`` is below 4. ``setup`` is called once per process by ``component.daemon``. Records of the standard
``logging`` module (aiohttp, asyncio, grpc) take the same road. Values under secret-looking names never reach the output.
"""

import contextlib
import contextvars
import logging
import os
import re
import stat
import sys
import traceback
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, TextIO

import orjson

daemon_name: Final[contextvars.ContextVar[str]] = contextvars.ContextVar("daemon_name", default="")
"""Which daemon the running task belongs to, when several share a process."""

LOG_LIMIT: Final = "PYBERNETES_LOG_LIMIT"
"""Environment variable: bytes after which a daemon begins its log file anew, for a parent that does not rotate it."""

_SECRET_KEY = re.compile(
    r"(^|[_\-.])(token|password|passwd|authorization|private[_-]?key|key[_-]?data|client[_-]?key|credentials?|cookie)$", re.I
)
_SECRET_TEXT = re.compile(
    r"(?P<bearer>\b(?:Bearer|Basic)\s+)[\w\-.~+/=]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]+",
    re.S,
)
_REDACTED = "[REDACTED]"
_QUIET = {"aiohttp.access": logging.WARNING, "asyncio": logging.WARNING}


def redact_text(text: str) -> str:
    """``text`` without bearer tokens, JSON web tokens and private keys."""
    return _SECRET_TEXT.sub(lambda match: (match["bearer"] or "") + _REDACTED, text)


def redact(key: str, value: Any) -> Any:
    """What may be logged for ``key``: the value, or a mark in its place, looking into mappings."""
    if _SECRET_KEY.search(key):
        return _REDACTED
    if isinstance(value, Mapping):
        return {name: redact(str(name), inner) for name, inner in value.items()}
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, BaseException):
        return redact_text(describe(value))
    return value


def describe(error: BaseException) -> str:
    """One line for an error; the leaves of a group; the class name where the text alone says nothing."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(describe(inner) for inner in error.exceptions)
    text = str(error)
    if isinstance(error, KeyError):
        return f"KeyError: {text}"
    return text or type(error).__name__


class Log:
    """A logger for one module. Keyword arguments are the named values; ``err=`` takes the exception."""

    __slots__ = ("_logger", "_values")

    def __init__(self, logger: logging.Logger, values: Mapping[str, Any] | None = None) -> None:
        self._logger = logger
        self._values = dict(values or {})

    def bind(self, **values: Any) -> "Log":
        """A logger that adds ``values`` to every line."""
        return Log(self._logger, {**self._values, **values})

    def enabled(self, verbosity: int) -> bool:
        return self._logger.isEnabledFor(logging.INFO - verbosity)

    def v(self, verbosity: int, message: str, /, **values: Any) -> None:
        """Informational, shown when ``--v`` is at least ``verbosity`` (1 to 10)."""
        level = logging.INFO - verbosity
        if self._logger.isEnabledFor(level):
            self._emit(level, message, values)

    def info(self, message: str, /, **values: Any) -> None:
        if self._logger.isEnabledFor(logging.INFO):
            self._emit(logging.INFO, message, values)

    def warning(self, message: str, /, **values: Any) -> None:
        self._emit(logging.WARNING, message, values)

    def error(self, message: str, /, **values: Any) -> None:
        self._emit(logging.ERROR, message, values)

    def exception(self, message: str, /, **values: Any) -> None:
        """An error with the traceback of the exception being handled: for what nobody expected."""
        self._emit(logging.ERROR, message, values, trace=True)

    def _emit(self, level: int, message: str, values: dict[str, Any], *, trace: bool = False) -> None:
        merged = {**self._values, **values} if self._values else values
        fields = {key: redact(key, value) for key, value in merged.items()}
        exc_info = sys.exc_info() if trace else None
        self._logger.log(level, "%s", message, extra={"fields": fields}, stacklevel=3, exc_info=exc_info)


def get(name: str) -> Log:
    """The logger of a module; cheap, no I/O, safe at import time."""
    return Log(logging.getLogger(name))


class _Bounded(logging.StreamHandler[TextIO]):
    """Writes to stderr, a file that nobody else rotates: past ``limit`` bytes it is renamed to ``<name>.1`` and begun anew.
    Both output streams go on in the new file."""

    def __init__(self, limit: int) -> None:
        super().__init__(sys.stderr)
        self._limit = limit
        self._left = limit

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        self._left -= 1000  # asking for the size at each line would cost more than the line
        if self._left < 0:
            with contextlib.suppress(OSError):
                self._left = self._limit - self._rotate()

    def _rotate(self) -> int:
        """The size of the file that is written now."""
        held = os.fstat(2)
        if not stat.S_ISREG(held.st_mode) or held.st_size < self._limit:
            return held.st_size if stat.S_ISREG(held.st_mode) else 0
        path = os.readlink("/proc/self/fd/2")
        os.rename(path, f"{path}.1")
        fresh = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, stat.S_IMODE(held.st_mode))
        for stream in (1, 2):
            if os.path.samestat(os.fstat(stream), held):
                os.dup2(fresh, stream)
        os.close(fresh)
        return 0


def setup(verbosity: int = 0, form: str = "text", stream: TextIO | None = None) -> None:
    """Direct all records of this process to ``stream`` (stderr) in ``form`` ``text`` or ``json``. Call it once."""
    limit = os.environ.get(LOG_LIMIT, "")
    handler = _Bounded(int(limit)) if stream is None and limit.isdigit() else logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.INFO - min(max(verbosity, 0), 19))
    for name, level in _QUIET.items():
        logging.getLogger(name).setLevel(level if verbosity < 6 else logging.DEBUG)


def _caller(record: logging.LogRecord) -> str:
    daemon = daemon_name.get()
    return f"{daemon}/{record.filename}:{record.lineno}" if daemon else f"{record.filename}:{record.lineno}"


class TextFormatter(logging.Formatter):
    """klog's lines: ``I1130 11:28:31.000001   42 informer.py:10] "Synced" resource="pods"``."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).strftime("%m%d %H:%M:%S.%f")
        letter = "I" if record.levelno < logging.WARNING else record.levelname[0]
        message = orjson.dumps(redact_text(record.getMessage())).decode()
        parts = [f"{letter}{when} {record.process:>7} {_caller(record)}] {message}"]
        parts += [f"{key}={_text_value(value)}" for key, value in getattr(record, "fields", {}).items()]
        line = " ".join(parts)
        if record.exc_info and record.exc_info[0]:
            line += "\n" + redact_text("".join(traceback.format_exception(*record.exc_info)).rstrip())
        return line


def _text_value(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return orjson.dumps(value).decode() if value.isprintable() or len(value) < 200 else _block(value)
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


def _block(text: str) -> str:
    return "<\n\t" + text.replace("\n", "\n\t") + "\n >"


class JsonFormatter(logging.Formatter):
    """One JSON object a line, with upstream's keys: ``ts`` (milliseconds), ``caller``, ``msg``, ``v``, then the values."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {"ts": round(record.created * 1000, 3), "caller": _caller(record)}
        line["msg"] = redact_text(record.getMessage())
        if record.levelno >= logging.ERROR:
            line["level"] = "error"
        elif record.levelno == logging.WARNING:
            line["level"] = "warning"
        else:
            line["v"] = max(logging.INFO - record.levelno, 0)
        line.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[0]:
            line["stacktrace"] = redact_text("".join(traceback.format_exception(*record.exc_info)))
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
