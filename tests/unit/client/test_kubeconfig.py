import base64

import pytest
import yaml

from client import kubeconfig


def test_what_is_built_is_loaded_again(tmp_path):
    path = tmp_path / "admin.kubeconfig"
    kubeconfig.save(kubeconfig.build("https://h:6443", ca=b"CA", certificate=b"C", key=b"K", namespace="n"), path)
    config = kubeconfig.load(path)
    assert (config.server, config.ca_data, config.certificate_data, config.key_data) == ("https://h:6443", b"CA", b"C", b"K")
    assert config.namespace == "n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_secrets_do_not_show_in_its_repr():
    config = kubeconfig.from_dict(kubeconfig.build("https://h", token="s3cret", certificate=b"C", key=b"K3Y"))
    assert "s3cret" not in repr(config)
    assert "K3Y" not in repr(config)


def test_file_names_are_relative_to_the_file(tmp_path):
    document = {
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": "https://h/", "certificate-authority": "pki/ca.crt"}}],
        "users": [{"name": "u", "user": {"client-certificate": "a.crt", "client-key": "/abs/a.key", "tokenFile": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(document))
    config = kubeconfig.load(tmp_path / "config")
    assert config.server == "https://h"
    assert config.ca_file == str(tmp_path / "pki/ca.crt")
    assert config.certificate_file == str(tmp_path / "a.crt")
    assert config.key_file == "/abs/a.key"
    assert config.token_file == str(tmp_path / "t")


def test_another_context_can_be_chosen():
    document = kubeconfig.build("https://one")
    document["clusters"].append({"name": "two", "cluster": {"server": "https://two"}})
    document["contexts"].append({"name": "other", "context": {"cluster": "two"}})
    assert kubeconfig.from_dict(document, context="other").server == "https://two"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda d: d.pop("current-context"), "no current-context"),
        (lambda d: d.update({"current-context": "x"}), "context 'x' is not among its contexts"),
        (lambda d: d["clusters"].clear(), "cluster 'kubernetes' is not among its clusters"),
        (lambda d: d["clusters"][0]["cluster"].clear(), "has no server"),
        (lambda d: d["users"][0]["user"].update({"client-key-data": "?"}), "client-key-data is not base64"),
    ],
    ids=["no-context", "unknown-context", "no-cluster", "no-server", "bad-data"],
)
def test_what_is_wrong_is_named_with_the_file(tmp_path, change, text):
    document = kubeconfig.build("https://h")
    change(document)
    (tmp_path / "config").write_text(yaml.safe_dump(document))
    with pytest.raises(kubeconfig.KubeconfigError, match=text) as caught:
        kubeconfig.load(tmp_path / "config")
    assert str(tmp_path / "config") in str(caught.value)


@pytest.mark.parametrize(("content", "text"), [(None, "cannot read"), ("a: [", "is not YAML"), ("", "is empty")])
def test_files_that_are_none_are_refused(tmp_path, content, text):
    if content is not None:
        (tmp_path / "config").write_text(content)
    with pytest.raises(kubeconfig.KubeconfigError, match=text):
        kubeconfig.load(tmp_path / "config")


def test_a_pod_finds_its_cluster(tmp_path):
    (tmp_path / "namespace").write_text("web")
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    config = kubeconfig.in_cluster(environment, tmp_path)
    assert (config.server, config.namespace) == ("https://[fd00::1]:443", "web")
    assert config.token_file == str(tmp_path / "token")
    with pytest.raises(kubeconfig.KubeconfigError, match="not in a cluster"):
        kubeconfig.in_cluster({}, tmp_path)


def test_exec_plugins_are_read():
    document = kubeconfig.build("https://h")
    document["users"][0]["user"] = {"exec": {"command": "x", "args": ["a"], "env": [{"name": "N", "value": "v"}]}}
    plugin = kubeconfig.from_dict(document).exec_plugin
    assert (plugin.command, plugin.args, plugin.env) == ("x", ("a",), {"N": "v"})


def test_inline_data_is_base64_of_the_pem():
    user = kubeconfig.build("https://h", certificate=b"PEM", key=b"KEY")["users"][0]["user"]
    assert base64.b64decode(user["client-certificate-data"]) == b"PEM"
