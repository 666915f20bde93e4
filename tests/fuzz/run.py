"""Sends a real API server what nobody should send, for as long as you like, and judges it::

    make fuzz MINUTES=10            # both parts, half of the time each
    python -m tests.fuzz.run --minutes 10 [--seed 1] [--schemathesis .venv-fuzz/bin/schemathesis]

The first part are the requests of ``requests``, made by hypothesis of the corpus; the second is schemathesis, which reads our own
OpenAPI v3 documents. Judged: no answer of 500, none that takes longer than ``LONGEST`` seconds, and no memory that grows.
``test_fuzz`` runs a short form of the first part.
"""

import argparse
import http.client
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis
from hypothesis import HealthCheck, Phase

from tests.fuzz.requests import Request, collections, requests
from tests.support.daemons import Bench, Daemon, bench

LONGEST = 10.0  # seconds for one answer, on a machine that others use, too
GROWTH = 96  # megabytes between the first fifth of a run and its end: caches of schemas and quantities fill up meanwhile
READY = 30.0
ROUND = 300
# What upstream answers with a 500 as well: a configuration to apply that does not fit its schema.
ALSO_UPSTREAM = (b"failed to create typed patch object", b"failed to create manager for existing fields")


def say(*texts: str) -> None:
    sys.stdout.write("\n\n".join(texts) + "\n")
    sys.stdout.flush()


class WrongAnswerError(AssertionError):
    """An answer that no server should give."""


@dataclass
class Client:
    """One connection, made anew when the server or the request has spoilt it."""

    made: Bench
    statuses: Counter[int] = field(default_factory=Counter)
    slowest: float = 0.0
    _connection: http.client.HTTPSConnection | None = None

    def send(self, request: Request) -> tuple[int, bytes]:
        """The status and the beginning of the body. Raises WrongAnswerError."""
        started = time.monotonic()
        try:
            status, body = self._exchange(request)
        except TimeoutError:
            self.close()
            raise WrongAnswerError(f"no answer in {LONGEST} s") from None
        except (http.client.HTTPException, ConnectionError, ssl.SSLError):
            self.close()  # the server may hang up on what is no HTTP; that it lives is seen by the next request
            return 0, b""
        taken = time.monotonic() - started
        self.slowest = max(self.slowest, taken)
        self.statuses[status] += 1
        if status >= 500 and not any(text in body for text in ALSO_UPSTREAM) and status != 504:
            raise WrongAnswerError(f"{status} {body[:1000].decode(errors='replace')}")
        return status, body

    def _exchange(self, request: Request) -> tuple[int, bytes]:
        connection = self._connection or self._connect()
        connection.putrequest(request.method, request.target, skip_accept_encoding=True)
        connection.putheader("Authorization", f"Bearer {self.made.token}")
        for name, value in request.headers:
            connection.putheader(name, value.encode("utf-8", "replace"))
        if request.body is not None:
            connection.putheader("Content-Length", str(len(request.body)))
        connection.endheaders(request.body)
        answer = connection.getresponse()
        if answer.status == 101 or "watch" in request.target:
            body = answer.read(2000)
            self.close()
        else:
            body = answer.read()
        if answer.will_close:
            self.close()
        return answer.status, body

    def _connect(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.made.pki / "ca.crt"))
        self._connection = http.client.HTTPSConnection("127.0.0.1", self.made.port, context=context, timeout=LONGEST)
        # odd paths are the point: let http.client send them
        self._connection._validate_path = lambda url: None  # type: ignore[attr-defined]
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def resident(daemon: Daemon) -> float:
    """Megabytes that the process holds."""
    pages = int(Path(f"/proc/{daemon.process.pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def start(made: Bench) -> Daemon:
    daemon = made.start("apiserver", *made.apiserver_flags("--runtime-config=api/all=true"))
    made.wait(daemon, lambda: made.get("/readyz").status == 200, READY)
    return daemon


def tidy(client: Client) -> None:
    """Remove what was made, so that only a leak can grow."""
    for path in collections():
        if "namespaces/default/" not in path:
            continue
        status, body = client.send(Request("GET", path, (("Accept", "application/json"),)))
        for item in json.loads(body).get("items") or () if status == 200 else ():
            one = f"{path}/{item['metadata']['name']}"
            if item["metadata"].get("finalizers"):
                free = json.dumps({"metadata": {"finalizers": None}}).encode()
                client.send(Request("PATCH", one, (("Content-Type", "application/merge-patch+json"),), free))
            client.send(Request("DELETE", f"{one}?gracePeriodSeconds=0&propagationPolicy=Background"))


def one_round(client: Client, seed: int, count: int) -> None:
    """``count`` requests that follow from ``seed``. Raises WrongAnswerError, with the smallest request that is answered so."""

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @hypothesis.given(requests)
    def fuzz(request: Request) -> None:
        client.send(request)

    fuzz()


def _told(seed: int, error: BaseException) -> str:
    return "\n  ".join([f"seed {seed}: {error}", *getattr(error, "__notes__", [])])


def hypothesis_part(made: Bench, daemon: Daemon, seconds: float, seed: int) -> list[str]:
    """What was wrong, in words."""
    client, problems = Client(made), []
    began, warm, sent = time.monotonic(), 0.0, 0
    while time.monotonic() - began < seconds:
        try:
            one_round(client, seed, ROUND)
        except BaseExceptionGroup as group:
            problems += [_told(seed, error) for error in group.exceptions]
        except (WrongAnswerError, hypothesis.errors.Flaky) as error:
            problems.append(_told(seed, error))
        seed, sent = seed + 1, sent + ROUND
        tidy(client)
        if daemon.process.poll() is not None:
            return [*problems, f"the server ended with {daemon.process.returncode}:\n{daemon.log[-3000:]}"]
        if not warm and time.monotonic() - began > seconds / 5:
            warm = resident(daemon)
    end = resident(daemon)
    say(f"about {sent} requests, slowest {client.slowest:.2f} s, {warm:.0f} MB early, {end:.0f} MB at the end")
    say("answers: " + ", ".join(f"{status}: {count}" for status, count in sorted(client.statuses.items())))
    if warm and end - warm > GROWTH:
        problems.append(f"memory grew by {end - warm:.0f} MB")
    return problems


def schemathesis_part(made: Bench, daemon: Daemon, seconds: float, program: str) -> list[str]:
    """One document after the other, each with its share of the time."""
    documents = sorted(json.loads(made.get("/openapi/v3", token=made.token).body)["paths"])
    documents = [one for one in documents if one.startswith(("api/", "apis/")) and one.count("/") >= one.startswith("apis/") + 1]
    early, problems = resident(daemon), []
    url = f"https://127.0.0.1:{made.port}"
    for document in documents:
        share = max(5, int(seconds / len(documents)))
        command = [
            *(program, "run", f"{url}/openapi/v3/{document}", "--url", url, "--tls-verify", str(made.pki / "ca.crt")),
            *("--header", f"Authorization: Bearer {made.token}", "--checks", "not_a_server_error"),
            *("--max-time", str(share), "--phases", "fuzzing", "--request-timeout", str(LONGEST), "--no-color"),
            *("--suppress-health-check", "all", "--warnings", "off", "--continue-on-failure", "--no-shrink"),
            *("--exclude-path-regex", r"/watch/|/proxy|/exec|/attach|/portforward", "--exclude-method", "DELETE"),
        ]
        environment = {**os.environ, "SCHEMATHESIS_HOOKS": "watches", "PYTHONPATH": str(Path(__file__).with_name("hooks"))}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=share * 4 + 120, check=False, env=environment, cwd=made.folder
        )
        say(f"{document}: {(done.stdout.strip().splitlines() or ['nothing'])[-1]}")
        if done.returncode:
            problems.append(f"schemathesis on {document}:\n{done.stdout[-6000:]}{done.stderr[-2000:]}")
        tidy(Client(made))
    late = resident(daemon)
    say(f"{len(documents)} documents, {early:.0f} MB before, {late:.0f} MB after")
    if late - early > GROWTH:
        problems.append(f"memory grew by {late - early:.0f} MB under schemathesis")
    return problems


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--schemathesis", default="", help="the program; without it the first part takes all the time")
    chosen = parser.parse_args(arguments)
    seconds = chosen.minutes * 60 / (2 if chosen.schemathesis else 1)
    with tempfile.TemporaryDirectory(prefix="pyb-fuzz-") as folder, bench(Path(folder) / "c") as made:
        daemon = start(made)
        problems = hypothesis_part(made, daemon, seconds, chosen.seed)
        if chosen.schemathesis and daemon.process.poll() is None:
            program = str(Path(chosen.schemathesis).absolute())  # it runs in a folder of its own
            problems += schemathesis_part(made, daemon, seconds, program)
        problems += [line for line in daemon.log.splitlines() if line.startswith("Traceback")][:1]
    say(*problems)
    say(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
