"""Requests that nobody should send, as hypothesis strategies: the corpus with something odd in it, in any encoding, at any door.

``run`` and ``test_fuzz`` draw from ``requests``. Hypothesis makes a failing request smaller before it is shown.
"""

import contextlib
import copy
import gzip
import json
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote

import yaml
from hypothesis import strategies as st

from apimachinery.codecs import protobuf
from apimachinery.errors import StatusError
from tests.corpus.cases import cases, collection

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
JSON_PATCH, MERGE = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"

# Kinds that change how the server answers others: they are only ever sent as a dry run.
_POWERFUL = ("admissionregistration", "apiregistration", "apiextensions", "flowcontrol", "v1/namespaces", "rbac")


@dataclass(frozen=True)
class Request:
    method: str
    target: str  # path and query, as they go on the wire
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None

    def __repr__(self) -> str:
        shown = self.body if self.body is None or len(self.body) < 600 else self.body[:600] + b"..."
        return f"{self.method} {self.target[:600]} {dict(self.headers)} {shown!r}"


@cache
def manifests() -> list[dict[str, Any]]:
    return [case.base or case.body for which in ("valid", "broken") for case in cases(which)]


@cache
def collections() -> list[str]:
    return sorted({collection(one) for one in manifests()})


# Words that stand for text which json cannot write, until the whole is encoded.
RAW = {
    **{f"@deep{depth}@": b'[{"a":' * depth + b"1" + b"}]" * depth for depth in (5, 60, 300, 3000)},
    **{
        f"@{text}@": text.encode()
        for text in ("1e400", "-1e400", "01", "1.0e", "nul", "0x10", "'a'", "1e-400", "123456789012345678901234567890.5")
    },
}


ODD = st.one_of(
    st.sampled_from([None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 2**200, 0.5, 1e308, -0.0]),
    st.sampled_from(
        ["", " ", "\0", "..", "../..", "%s%n", "a/b", "A_b", "٣", "\u202e", "\ud800", "𐍈", "-1", "1e400", "0x1p-2", "NaN"]
    ),
    st.sampled_from([[], {}, [None], {"": None}, {"a": None}, [[]], [{}], {"$patch": "delete"}, {"f:a": {}}]).map(copy.deepcopy),
    st.sampled_from([64, 300, 20_000]).map(lambda size: "x" * size),
    st.sampled_from(sorted(RAW)),
    st.text(max_size=40),
    st.integers(),
    st.floats(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3), max_leaves=8
    ),
    st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=8), max_size=4),
)


STRINGS = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "a b",
            "A_b",
            "x" * 64,
            "x" * 254,
            "a/b/c",
            "/",
            "..",
            "-1",
            "0",
            "1e9",
            "10.0.0.0/33",
            "::ffff:1.2.3.4",
            "fe80::1%e",
        ]
    ),
    st.sampled_from(
        ["1Ki", "-5", "1e30", "0.0000000001", "5%", "-5%", "200%", "@every 1s", "* * * * *", "0 0 31 2 *", "Always", "None", "*"]
    ),
    st.sampled_from(
        [
            "2026-01-01T00:00:00Z",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59.999999999+14:00",
            "metadata.labels['a']",
            "limits.cpu",
        ]
    ),
    st.text(max_size=20),
)
OF_TYPE: dict[type, st.SearchStrategy[Any]] = {
    str: STRINGS,
    int: st.sampled_from([-(2**31), -1, 0, 1, 255, 65535, 65536, 2**31 - 1, 2**63 - 1]) | st.integers(-(2**31), 2**31 - 1),
    bool: st.booleans(),
    list: st.sampled_from([[], [{}], [""]]).map(copy.deepcopy),
    dict: st.dictionaries(STRINGS, STRINGS, max_size=3),
}


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, each in inner for place in [(*path, key), *_places(each, (*path, key))]]


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A manifest with up to four odd places."""
    obj = json.loads(json.dumps(draw(st.sampled_from(manifests()))))
    for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2, 4]))):
        places = _places(obj)
        if not places:
            break
        *way, last = draw(st.sampled_from(places))
        target = obj
        for step in way:
            target = target[step]
        action = draw(st.sampled_from(["same", "same", "same", "same", "set", "delete", "add", "many"]))
        if action == "same":  # decodes, and so comes further
            target[last] = draw(OF_TYPE.get(type(target[last]), ODD))
        elif action == "set":
            target[last] = draw(ODD)
        elif action == "delete":
            del target[last]
        elif action == "add" and isinstance(target, dict):
            target[draw(st.text(max_size=12))] = draw(ODD)
        elif isinstance(target, list):
            target.extend(copy.deepcopy(target[last]) for _ in range(draw(st.sampled_from([1, 50, 500]))))
    return obj if isinstance(obj, dict) else {}


def _json(obj: Any) -> bytes:
    body = json.dumps(obj).encode("utf-8", "surrogatepass")
    for word, text in RAW.items():
        body = body.replace(b'"' + word.encode() + b'"', text)
    return body


@st.composite
def encoded(draw: st.DrawFn, obj: Any) -> tuple[str, bytes]:
    """(content type, bytes) of ``obj``, not always in good order."""
    kind = draw(st.sampled_from([JSON, JSON, JSON, YAML, PROTOBUF]))
    body = b""
    with contextlib.suppress(StatusError, ValueError, TypeError, KeyError, OverflowError, AttributeError, yaml.YAMLError):
        body = (
            yaml.safe_dump(obj).encode("utf-8", "replace")
            if kind == YAML
            else protobuf.encode(obj) or b""
            if kind == PROTOBUF
            else b""
        )
    if not body:
        kind, body = JSON, _json(obj)
    damage = draw(st.sampled_from(["none"] * 6 + ["cut", "flip", "double", "bom"]))
    if damage == "cut":
        body = body[: draw(st.integers(0, len(body)))]
    elif damage == "flip" and body:
        changed = bytearray(body)
        for _ in range(draw(st.integers(1, 8))):
            changed[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
        body = bytes(changed)
    elif damage == "double":
        body = body.replace(b'"metadata":', b'"metadata":{},"metadata":') + draw(st.sampled_from([b"", b"{}", b"\0"]))
    elif damage == "bom":
        body = b"\xef\xbb\xbf" + body
    return draw(st.sampled_from([kind] * 8 + [JSON, YAML, PROTOBUF, "text/plain", kind + "; charset=utf-16", ""])), body


POINTERS = st.one_of(
    st.sampled_from(
        ["", "/", "/metadata/labels/a", "/metadata/name", "/spec", "/spec/containers/0/image", "/spec/containers/-", "/data/~1~0"]
    ),
    st.lists(st.text(max_size=6) | st.integers(-2, 10**12).map(str), max_size=4).map(
        lambda parts: "".join("/" + part for part in parts)
    ),
)
OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "paint", ""]), "path": POINTERS},
    optional={"value": ODD, "from": POINTERS, "more": ODD},
)


@st.composite
def patches(draw: st.DrawFn) -> tuple[str, bytes]:
    kind = draw(st.sampled_from([JSON_PATCH, MERGE, STRATEGIC, APPLY]))
    if kind == JSON_PATCH:
        return kind, _json(draw(st.lists(OPERATIONS | ODD, max_size=5)))
    obj = draw(mutated())
    if kind == STRATEGIC:
        places = [place for place in _places(obj) if place]
        if places and draw(st.booleans()):
            *way, _ = draw(st.sampled_from(places))
            target = obj
            for step in way:
                target = target[step]
            if isinstance(target, dict):
                directive = draw(
                    st.sampled_from(
                        ["$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers"]
                    )
                )
                target[directive] = draw(ODD | st.sampled_from(["delete", "replace", "merge", [{"name": "c"}]]))
    return kind, _json(obj)


NUMBERS = st.sampled_from(["0", "1", "-1", "500", "99999999999999999999", "abc", "1.5", ""]) | st.text(max_size=5)
QUERIES: dict[str, st.SearchStrategy[str]] = {
    "limit": NUMBERS,
    "continue": st.sampled_from(["", "abc", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhXHUwMDAwIn0"])
    | st.text(max_size=20),
    "resourceVersion": NUMBERS,
    "resourceVersionMatch": st.sampled_from(["Exact", "NotOlderThan", "exact", ""]),
    "labelSelector": st.sampled_from(["a=b", "a in (b,c)", "!a", "a,b!=c", "a in (", "a gt 5", "(((("]) | st.text(max_size=20),
    "fieldSelector": st.sampled_from(["metadata.name=x", "spec.nodeName=", "status.phase!=Running", "a=b", "metadata.name=\\,"])
    | st.text(max_size=20),
    "timeoutSeconds": st.sampled_from(["0", "1", "-1", "abc"]),
    "allowWatchBookmarks": st.sampled_from(["true", "1", "maybe"]),
    "sendInitialEvents": st.sampled_from(["true", "false", "x"]),
    "watch": st.sampled_from(["true", "1", "0", "maybe", ""]),
    "pretty": st.sampled_from(["true", "x"]),
    "dryRun": st.sampled_from(["All", "Some", ""]),
    "fieldManager": st.sampled_from(["m", "x" * 129, "\0", "ü"]) | st.text(max_size=10),
    "fieldValidation": st.sampled_from(["Strict", "Warn", "Ignore", "x"]),
    "force": st.sampled_from(["true", "x"]),
    "gracePeriodSeconds": NUMBERS,
    "propagationPolicy": st.sampled_from(["Foreground", "Background", "Orphan", "x"]),
    "includeObject": st.sampled_from(["None", "Metadata", "Object", "x"]),
    "container": st.text(max_size=5),
    "command": st.text(max_size=5),
}
SUBRESOURCES = (
    "status",
    "scale",
    "eviction",
    "binding",
    "approval",
    "finalize",
    "ephemeralcontainers",
    "resize",
    "token",
    "log",
    "x",
)
ACCEPTS = st.sampled_from(
    [JSON, PROTOBUF, YAML, TABLE, METADATA, TABLE + ";q=0", "*/*", "", "text/html", "application/json;as=Tab", ",,;q=x"]
)
HEADERS = st.sampled_from(
    [
        ("Impersonate-User", "x"),
        ("Impersonate-Group", "y"),
        ("Impersonate-Extra-%zz", "y"),
        ("Accept-Encoding", "gzip, br;q=x"),
        ("Content-Encoding", "gzip"),
        ("If-None-Match", '"x"'),
        ("Range", "bytes=5-1"),
        ("X-Forwarded-For", "x" * 2000),
        ("Audit-ID", "ü" * 100),
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Expect", "100-continue"),
    ]
)
SEGMENTS = st.sampled_from(
    ["api", "apis", "v1", "apps", "namespaces", "default", "pods", "%2e%2e", "..", "", "%00", "%ff", "x" * 5000, "watch"]
)


@st.composite
def queries(draw: st.DrawFn, *given: str) -> str:
    names = draw(st.lists(st.sampled_from(sorted(QUERIES)), max_size=4))
    parts = [*given, *(f"{name}={quote(draw(QUERIES[name]).encode('utf-8', 'surrogatepass'))}" for name in names)]
    if draw(st.integers(0, 30)) == 0:
        parts.append(draw(st.sampled_from(["%zz", "=", "&&", "a" * 9000, ";", "a=%ff", "watch"])))
    if any(part.startswith("watch") for part in parts):
        parts = [part for part in parts if not part.startswith("timeoutSeconds")] + ["timeoutSeconds=1"]
    return "?" + "&".join(parts) if parts else ""


@st.composite
def writes(draw: st.DrawFn) -> Request:
    """A body for a collection, an object or one of its subresources."""
    obj = draw(mutated())
    where = draw(st.sampled_from(collections()))
    with contextlib.suppress(KeyError, TypeError):
        where = collection(obj) if draw(st.integers(0, 9)) else where
    method = draw(st.sampled_from(["POST", "POST", "POST", "PUT", "PATCH", "PATCH", "DELETE"]))
    safe = ("dryRun=All",) if any(word in where for word in _POWERFUL) else ()
    if method != "POST":
        metadata = obj.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        where += "/" + quote(str(name if isinstance(name, str) and name else "x").encode("utf-8", "replace"), safe="")
        if draw(st.integers(0, 4)) == 0:
            where += "/" + draw(st.sampled_from(SUBRESOURCES))
    kind, body = draw(patches()) if method == "PATCH" else draw(encoded(obj))
    headers = [("Content-Type", kind), ("Accept", draw(ACCEPTS))]
    if draw(st.integers(0, 15)) == 0:
        headers.append(("Content-Encoding", "gzip"))
        body = gzip.compress(body) if draw(st.booleans()) else body
    return Request(method, where + draw(queries(*safe)), tuple(headers), body)


@st.composite
def reads(draw: st.DrawFn) -> Request:
    where = draw(st.sampled_from(collections()))
    if draw(st.booleans()):
        where += "/x" + draw(st.sampled_from(["", "", "/status", "/scale", "/log", "/x"]))
    if draw(st.integers(0, 6)) == 0:
        where = "/" + "/".join(
            draw(st.lists(SEGMENTS | st.text(max_size=5).map(lambda text: quote(text.encode("utf-8", "replace"))), max_size=7))
        )
    headers = [("Accept", draw(ACCEPTS)), *draw(st.lists(HEADERS, max_size=2))]
    method = draw(st.sampled_from(["GET"] * 12 + ["HEAD", "OPTIONS", "TRACE", "CONNECT", "FROB"]))
    return Request(method, where + draw(queries()), tuple(headers))


requests = st.one_of(writes(), writes(), writes(), reads())
