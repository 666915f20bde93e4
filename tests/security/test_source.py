"""What is dangerous in Python is nowhere in the product."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("apimachinery", "component", "client", "cri", "controlplane", "node", "netproxy", "bootstrap", "cli")
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "telnetlib", "xmlrpc"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_METHODS = {
    ("yaml", "load"), ("yaml", "unsafe_load"), ("yaml", "full_load"), ("os", "system"), ("os", "popen"), ("tempfile", "mktemp"),
    ("ssl", "_create_unverified_context"), ("subprocess", "getoutput"),
}  # fmt: skip


def sources() -> Iterator[Path]:
    for package in PACKAGES:
        yield from (path for path in (ROOT / package).rglob("*.py") if not path.name.endswith(("_pb2.py", "_pb2_grpc.py")))


def problems(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (
                f"{node.lineno}: import {name.name}" for name in node.names if name.name.split(".")[0] in FORBIDDEN_MODULES
            )
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FORBIDDEN_MODULES:
            yield f"{node.lineno}: from {node.module}"
        elif isinstance(node, ast.Call):
            yield from calls(node)


def calls(node: ast.Call) -> Iterator[str]:
    function = node.func
    if isinstance(function, ast.Name) and function.id in FORBIDDEN_CALLS:
        yield f"{node.lineno}: {function.id}()"
    dotted = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
    if dotted and (function.value.id, function.attr) in FORBIDDEN_METHODS:  # type: ignore[attr-defined]
        yield f"{node.lineno}: {function.value.id}.{function.attr}()"  # type: ignore[attr-defined]
    for keyword in node.keywords:
        if keyword.arg == "shell" and isinstance(keyword.value, ast.Constant) and keyword.value.value:
            yield f"{node.lineno}: shell=True"


def test_nothing_dangerous_is_called() -> None:
    found = {str(path.relative_to(ROOT)): list(problems(ast.parse(path.read_text()))) for path in sources()}
    assert len(found) > 200
    assert {path: each for path, each in found.items() if each} == {}


@pytest.mark.parametrize(
    "text", ["import pickle", "yaml.load(x)", "run('a', shell=True)", "eval('1')", "from marshal import loads"]
)
def test_the_search_finds(text: str) -> None:
    assert list(problems(ast.parse(text)))


def test_tokens_are_compared_in_constant_time() -> None:
    folder = ROOT / "controlplane/apiserver/authentication"
    for name in ("static_token.py", "bootstrap_token.py"):
        assert "hmac.compare_digest" in (folder / name).read_text()
