"""Input that only an enemy or a broken program sends, to an API server in a process of its own: it answers each, writes
nothing, keeps its memory, shows no traceback, and goes on."""

import gzip
import json
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.daemons import Bench, Daemon, bench

MAPS = "/api/v1/namespaces/default/configmaps"
JSON = "Content-Type: application/json"
CLOSE = "Connection: close"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bench, Daemon]]:
    folder = tmp_path_factory.mktemp("hostile")
    with bench(folder / "c") as keys:
        daemon = keys.start_apiserver(f"--audit-log-path={folder / 'audit.log'}", "--request-timeout=2s", "--v=2")
        before, pss = kept(keys), memory(daemon)
        yield keys, daemon
        assert keys.get("/readyz").status == 200, daemon.log
        assert kept(keys) == before
        assert memory(daemon) - pss < 150 << 20
        assert daemon.stop() == 0
        assert "Traceback" not in daemon.log
        assert keys.token not in daemon.log


def kept(keys: Bench) -> str:
    found = keys.kubectl("get", "configmaps,deployments", "-A", "-o", "name")
    assert found.code == 0
    return found.out


def memory(daemon: Daemon) -> int:
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS:"))


def converse(keys: Bench, *pieces: bytes, seconds: float = 5) -> bytes:
    """Send all pieces on one connection, as far as the server lets; everything that comes back within the time."""
    context = ssl.create_default_context(cafile=str(keys.pki / "ca.crt"))
    plain = socket.create_connection(("127.0.0.1", keys.port), timeout=20)
    received = b""
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
        connection.settimeout(seconds)
        try:
            for piece in pieces:
                connection.sendall(piece)
            while part := connection.recv(65536):
                received += part
        except OSError:
            pass
    return received


def request(keys: Bench, first: str, *headers: str, body: bytes = b"", token: str | None = None) -> bytes:
    length = [f"Content-Length: {len(body)}"] if body else []
    lines = [f"{first} HTTP/1.1", "Host: a", f"Authorization: Bearer {token or keys.token}", CLOSE, *headers, *length, "", ""]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + body


def named(name: str, **more: object) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **more}).encode()


DEEP = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"x":' + b'{"a":' * 20000 + b"1" + b"}" * 20001
ALIASES = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (letter, letter, b",".join([b"*%c" % (letter - 1)] * 9)) for letter in b"bcdefghij"
)
RAW = {
    "not HTTP": (b"hello world\r\n\r\n", b" 400 "),
    "HTTP/2 without asking": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b" 400 "),
    "HTTP/3.0": (b"GET /healthz HTTP/3.0\r\n\r\n", b" 400 "),
    "no host": (b"GET /healthz HTTP/1.1\r\n\r\n", b" 400 "),
    "a NUL in a header": (b"GET /healthz HTTP/1.1\r\nHost: a\r\nA: b\x00c\r\n\r\n", b" 400 "),
    "two lengths": (b"POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde", b" 400 "),
    "length and chunks": (
        b"POST /api HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        b" 400 ",
    ),
    "a token in no character set": (
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer \xff\xfe\r\n\r\n",
        b" 401 ",
    ),
}


@pytest.mark.parametrize("what", RAW)
def test_what_is_hardly_http(server: tuple[Bench, Daemon], what: str) -> None:
    sent, answer = RAW[what]
    assert answer in converse(server[0], sent).split(b"\r\n")[0]


CASES = {
    "deep objects": (f"POST {MAPS}", (JSON,), DEEP, b" 400 ", b"exceeded max depth"),
    "deep arrays": (f"POST {MAPS}", (JSON,), b"[" * 100_000, b" 400 ", b"exceeded max depth"),
    "deep patch": (
        "PATCH /api/v1/namespaces/default",
        ("Content-Type: application/strategic-merge-patch+json",),
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b" 400 ",
        b"exceeded max depth",
    ),
    "a number without end": (f"POST {MAPS}", (JSON,), b'{"a":' + b"9" * 5000 + b"}", b" 400 ", b"value out of range"),
    "a compressed body": (f"POST {MAPS}", (JSON, "Content-Encoding: gzip"), gzip.compress(named("a")), b" 400 ", b"x1f'"),
    "a body that is no deflate": (f"POST {MAPS}", (JSON, "Content-Encoding: deflate"), b"xxxx", b" 400 ", b"'x'"),
    "a long query": (f"GET {MAPS}?a={'b' * 70000}", (), b"", b" 431 ", b""),
    "a long header": (f"GET {MAPS}", ("X: " + "a" * 200_000,), b"", b" 431 ", b""),
    "a broken chunk": (f"POST {MAPS}", (JSON, "Transfer-Encoding: chunked"), b"", b" 400 ", b""),
    "a path in no character set": (f"GET {MAPS}/%ff", (), b"", b" 400 ", b"not valid UTF-8"),
    "a user in no character set": (f"GET {MAPS}", ("Impersonate-User: \udcff",), b"", b" 403 ", 'User \\"�\\"'.encode()),
    "an agent in no character set": (f"POST {MAPS}", (JSON, "User-Agent: \udcff"), b"{", b" 400 ", b"unexpected end"),
    "a version on create": (
        f"POST {MAPS}",
        (JSON,),
        named("a", metadata={"name": "a", "resourceVersion": "7"}),
        b" 500 ",
        b"resourceVersion should not be set on objects to be created",
    ),
    "a limit that is no int64": (f"GET {MAPS}?limit=99999999999999999999", (), b"", b" 400 ", b"value out of range"),
    "a limit of other digits": (f"GET {MAPS}?limit=1_0", (), b"", b" 400 ", b"invalid syntax"),
    "seconds that are no number": (f"GET {MAPS}?timeoutSeconds=abc", (), b"", b" 400 ", b'parsing \\"abc\\"'),
    "10,001 operations": (
        "PATCH /api/v1/namespaces/default",
        ("Content-Type: application/json-patch+json",),
        json.dumps([{"op": "test", "path": "/a", "value": 1}] * 10_001).encode(),
        b" 413 ",
        b"The allowed maximum operations in a JSON patch is 10000, got 10001",
    ),
    "aliases of aliases": (
        f"POST {MAPS}",
        ("Content-Type: application/yaml",),
        ALIASES,
        b" 400 ",
        b"excessive aliasing",
    ),
    "an upgrade to nothing": (f"GET {MAPS}/none", ("Upgrade: foo",), b"", b" 404 ", b"not found"),
}


@pytest.mark.parametrize("what", CASES)
def test_requests_that_nobody_should_send(server: tuple[Bench, Daemon], what: str) -> None:
    first, headers, body, status, text = CASES[what]
    sent = request(server[0], first, *headers, body=body)
    answer = converse(server[0], sent + (b"zz\r\n" if what == "a broken chunk" else b""))
    assert status in answer.split(b"\r\n")[0], answer[:400]
    assert text in answer


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(server: tuple[Bench, Daemon]) -> None:
    sent = request(server[0], f"POST {MAPS}", JSON, "Content-Length: 4000000")
    assert b" 413 " in converse(server[0], sent, seconds=1).split(b"\r\n")[0]


def test_a_body_that_never_comes_ends_with_a_timeout(server: tuple[Bench, Daemon]) -> None:
    sent = request(server[0], f"POST {MAPS}", JSON, "Content-Length: 400")
    answer = converse(server[0], sent, b"{", seconds=4)
    assert b" 504 " in answer.split(b"\r\n")[0]
    assert b"request did not complete within the allotted timeout" in answer


def test_many_large_bodies_at_once_and_uploads_that_break_off(server: tuple[Bench, Daemon]) -> None:
    keys, _ = server
    body = named("UPPER", data={"x": "y" * 2_900_000})
    whole, half = request(keys, f"POST {MAPS}", JSON, body=body), request(keys, f"POST {MAPS}", JSON, body=body)[:1_000_000]
    answers: list[bytes] = []
    threads = [threading.Thread(target=lambda: answers.append(converse(keys, whole)[:12])) for _ in range(12)]
    threads += [threading.Thread(target=lambda: converse(keys, half, seconds=0.2)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [b"HTTP/1.1 422"] * 12


FLOODS = {
    "a head": (lambda keys: b"GET / HTTP/1.1\r\n", b"X-A: " + b"a" * 60_000 + b"\r\n", b" 431 "),
    "a body": (lambda keys: request(keys, f"POST {MAPS}", JSON, "Content-Length: 9000000000"), b"a" * 60_000, b" 413 "),
}


@pytest.mark.parametrize("what", FLOODS)
def test_who_floods_is_told_so_and_not_read_any_more(server: tuple[Bench, Daemon], what: str) -> None:
    """Not even to close the connection in good order: what is sent after the refusal stays with the client."""
    keys, _ = server
    first, more, answer = FLOODS[what]
    context = ssl.create_default_context(cafile=str(keys.pki / "ca.crt"))
    plain = socket.create_connection(("127.0.0.1", keys.port), timeout=5)
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
        connection.sendall(first(keys))
        connection.setblocking(False)
        seen, sent = b"", 0

        def flood(seconds: float, until: bytes = b"") -> bool:
            """Sends and reads by turns, as one thread may. False: the connection has been cut off."""
            nonlocal seen, sent
            end = time.monotonic() + seconds
            while time.monotonic() < end and not (until and until in seen):
                select.select([connection], [connection], [], 0.1)
                try:
                    with suppress(ssl.SSLWantReadError):
                        seen += connection.recv(65536)
                    with suppress(ssl.SSLWantWriteError, ssl.SSLWantReadError):
                        sent += connection.send(more)
                except OSError:
                    return False
            return True

        flood(10, until=answer)
        assert answer in seen
        flood(1.5)  # for a second the rest of a body may still be read
        before = sent
        assert not flood(10)
    assert sent - before < 20 << 20  # what the kernel holds for both ends
