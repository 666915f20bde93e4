import io
import logging

import orjson
import pytest

from component import logs


@pytest.fixture
def output():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def start(verbosity: int = 0, form: str = "text") -> io.StringIO:
        stream = io.StringIO()
        logs.setup(verbosity, form, stream)
        return stream

    yield start
    root.handlers[:], root.level = handlers, level
    logging.getLogger("asyncio").setLevel(logging.NOTSET)


def test_text_has_the_form_of_klog(output):
    stream = output()
    logs.get("x").info("Pod started", pod="default/web", count=3, ready=True)
    line = stream.getvalue()
    assert line.startswith("I")
    assert line.endswith('] "Pod started" pod="default/web" count=3 ready=true\n')
    assert "test_logs.py:" in line


def test_json_carries_the_values_as_they_are(output):
    stream = output(form="json")
    logs.get("x").error("Failed", err=ValueError("bad"), items=[1, 2])
    line = orjson.loads(stream.getvalue())
    assert line["msg"] == "Failed"
    assert line["level"] == "error"
    assert line["err"] == "bad"
    assert line["items"] == [1, 2]


def test_verbosity_decides_what_is_shown(output):
    stream = output(verbosity=2)
    log = logs.get("x")
    log.v(2, "shown")
    log.v(3, "hidden")
    assert log.enabled(2)
    assert not log.enabled(3)
    assert "shown" in stream.getvalue()
    assert "hidden" not in stream.getvalue()


def test_lines_name_the_daemon_when_one_is_set(output):
    stream = output()
    token = logs.daemon_name.set("scheduler")
    logs.get("x").info("hello")
    logs.daemon_name.reset(token)
    assert "scheduler/test_logs.py" in stream.getvalue()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("token", "abc123"),
        ("bearer_token", "abc123"),
        ("config", {"password": "abc123"}),
        ("header", "Authorization: Bearer abc123abc123"),
        ("jwt", "eyJhbGciOiJSUzI1NiJ9.eyJabc123.c2lnbmF0dXJl"),
        ("pem", "-----BEGIN EC PRIVATE KEY-----\nabc123\n-----END EC PRIVATE KEY-----"),
        ("err", ValueError("failed with Bearer abc123abc123")),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value and len(value) < 20 else "value",
)
def test_secrets_do_not_reach_the_output(output, key, value):
    for form in ("text", "json"):
        stream = output(form=form)
        logs.get("x").info("Told", **{key: value})
        assert "abc123" not in stream.getvalue()
        assert "REDACTED" in stream.getvalue()


def test_names_that_only_mention_secrets_are_kept(output):
    stream = output()
    logs.get("x").info("Mounted", secret="default/db", tokens=3, key="default/web")
    assert 'secret="default/db" tokens=3 key="default/web"' in stream.getvalue()


def test_standard_logging_takes_the_same_road(output):
    stream = output()
    logging.getLogger("other").warning("count %d", 3)
    assert '"count 3"' in stream.getvalue()


def test_exceptions_bring_their_traceback(output):
    stream = output(form="json")
    try:
        raise RuntimeError("deep")
    except RuntimeError as error:
        logs.get("x").exception("Unexpected", err=error)
    assert "RuntimeError: deep" in orjson.loads(stream.getvalue())["stacktrace"]
