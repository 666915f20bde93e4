import click
import pytest

from component import config, flags

PARAMS = [
    flags.option("--cluster-domain", default="cluster.local"),
    flags.option("--max-pods", type=int, default=110),
    flags.option("--sync-frequency", type=flags.DURATION, default="1m"),
]


def given(*argv):
    context = click.Command("x", params=PARAMS).make_context("x", list(argv))
    return context.params, context


def test_the_file_stands_between_defaults_and_flags(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("apiVersion: a/v1\nkind: K\nmaxPods: 50\nsyncFrequency: 10s\nclusterDomain: x.y\n")
    options, context = given("--cluster-domain=mine")
    assert config.merged(options, config.read(path, "K"), PARAMS, context) == {
        "cluster_domain": "mine",
        "max_pods": 50,
        "sync_frequency": 10.0,
    }


def test_an_unknown_key_is_named():
    options, context = given()
    with pytest.raises(click.UsageError, match=r"unknown key 'maxPod'.* known are clusterDomain, maxPods"):
        config.merged(options, {"maxPod": 1}, PARAMS, context)


def test_a_value_of_the_wrong_type_is_refused():
    options, context = given()
    with pytest.raises(click.BadParameter, match="not a valid integer"):
        config.merged(options, {"maxPods": "many"}, PARAMS, context)


@pytest.mark.parametrize(
    ("content", "text"),
    [(None, "cannot read"), ("a: [", "is not YAML"), ("- a", "must be a mapping"), ("kind: Other", "kind must be K")],
)
def test_files_that_are_none_are_refused(tmp_path, content, text):
    if content is not None:
        (tmp_path / "c").write_text(content)
    with pytest.raises(click.UsageError, match=text):
        config.read(tmp_path / "c", "K")
