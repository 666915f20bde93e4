"""References of images in expressions: upstream's examples."""

from typing import Any

import pytest

from tests.unit.apimachinery.cel.library.expressions import does_not_compile, fails, value

DIGEST = "sha256:" + "6aefddb645ee6963afd681b1845c661d0ea4c3b20ab9db86d9e753b203d385f2"
BOTH = f"registry.k8s.io/kube-apiserver:latest@{DIGEST}"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("isImage('registry.k8s.io/kube-apiserver:latest')", True),
        ("isImage('registry.k8s.io/kube-apiserver:@')", False),
        ("isImage('UPPER')", False),
        ("isImage('nginx@sha256:abc')", False),
        ("image('registry.k8s.io/kube-apiserver').containsDigest()", False),
        (f"image('{BOTH}').containsDigest()", True),
        (f"image('{BOTH}').identifier()", DIGEST),
        (f"image('{BOTH}').digest()", DIGEST),
        (f"image('{BOTH}').tag()", ""),
        (f"image('{BOTH}').repository()", "kube-apiserver"),
        ("image('kube-apiserver:testtag').registry()", "index.docker.io"),
        ("image('docker.io/me/it').registry()", "index.docker.io"),
        ("image('registry.k8s.io/kube-apiserver').registry()", "registry.k8s.io"),
        ("image('localhost:5000/some/thing').registry()", "localhost:5000"),
        ("image('localhost:5000/some/thing').repository()", "some/thing"),
        ("image('registry.k8s.io/kube-apiserver:testtag').identifier()", "testtag"),
        ("image('registry.k8s.io/kube-apiserver').tag()", "latest"),
        ("image('nginx').digest()", ""),
        ("image('nginx').repository()", "library/nginx"),
    ],
)
def test_images(expression: str, expected: Any) -> None:
    assert value(expression) == expected


def test_what_is_none() -> None:
    fails("image('a/b:@').tag()", "could not parse reference: a/b:@")
    does_not_compile("isImage(0)", "found no matching overload for 'isImage'")
