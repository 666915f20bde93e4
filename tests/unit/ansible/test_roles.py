"""What the roles write is what the product reads: flags, configurations, and the keys that they name."""

import importlib
import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from bootstrap.machines import ensure, read
from cli.__main__ import VERBS
from component.daemon import command
from node.kubelet.config import parse as kubelet_config
from tests.unit.ansible.playbooks import PLAYBOOKS, ansible_playbook

UNITS = {
    "cp1": {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-balancer", "kubelet", "kube-proxy", "kube-dns"},
    "worker1": {"kube-balancer", "kubelet", "kube-proxy", "kube-dns"},
}
INVENTORY = {
    "all": {
        "hosts": {
            "cp1": {"ansible_host": "192.0.2.1"},
            "cp2": {"ansible_host": "192.0.2.2"},
            "worker1": {"ansible_host": "192.0.2.9", "node_labels": {"disk": "ssd", "zone": "a"}},
        },
        "children": {
            "kube_control_plane": {"hosts": {"cp1": {}, "cp2": {}}},
            "etcd": {"hosts": {"cp1": {}, "cp2": {}}},
            "kube_node": {"hosts": {"worker1": {}}},
        },
    }
}
BY_THE_KUBELET = {"kubelet.conf", "bootstrap.conf", "config.yaml"}
TEMPLATES = {
    "cluster.yaml": "pki/templates/cluster.yaml.j2",
    "etcd.env": "etcd/templates/etcd.default.j2",
    "config.yaml": "node/templates/config.yaml.j2",
    "containerd-1.toml": "containerd/templates/config.toml.j2",
    "containerd-2.toml": "containerd/templates/config.toml.j2",
}


def units_of_roles() -> list[dict[str, Any]]:
    """Every task that asks the role `daemon` for a unit, as a task that shows the unit instead."""
    found = []
    for file in sorted(PLAYBOOKS.glob("roles/*/tasks/main.yml")):
        for task in yaml.safe_load(file.read_text()):
            if task.get("ansible.builtin.include_role", {}).get("name") == "daemon":
                only = {} if file.parts[-3] != "control_plane" else {"when": "cluster_is_control_plane"}
                found.append(
                    {**show(f"{task['vars']['daemon_name']}.service", "daemon/templates/daemon.service.j2", task["vars"]), **only}
                )
    return found


def show(name: str, template: str, values: dict[str, Any]) -> dict[str, Any]:
    content = f"{{{{ lookup('ansible.builtin.template', '{PLAYBOOKS}/roles/{template}') }}}}"
    return {"ansible.builtin.debug": {"msg": {"name": name, "content": content}}, "vars": values}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the roles write, by machine. Ansible's own templating, without its modules: those would take half a minute."""
    folder = tmp_path_factory.mktemp("rendered")
    play = {
        "hosts": "all",
        "gather_facts": False,
        "vars_files": [str(file) for file in sorted(PLAYBOOKS.glob("roles/*/vars/main.yml"))],
        "vars": {"ansible_managed": "by ansible", "node_resolved": {"stat": {"exists": False}}},
        "tasks": [
            *units_of_roles(),
            *(show(name, template, {"containerd_major": 2 if "-2" in name else 1}) for name, template in TEMPLATES.items()),
            {"ansible.builtin.debug": {"msg": {"name": "sets.json", "content": "{{ pki_sets | to_json }}"}}},
            {"ansible.builtin.debug": {"msg": {"name": "files.json", "content": "{{ pki_files | to_json }}"}}},
        ],
    }
    (folder / "play.yml").write_text(json.dumps([play]))
    # Defaults lose against what an inventory says of a host, so here they stand for what it says of all.
    defaults = [yaml.safe_load(file.read_text()) for file in sorted(PLAYBOOKS.glob("roles/*/defaults/main.yml"))]
    everybody = {name: value for each in defaults for name, value in each.items()}
    (folder / "hosts.json").write_text(json.dumps({"all": {**INVENTORY["all"], "vars": everybody}}))
    extra = json.dumps({"cluster_config": f"{folder}/etc", "cluster_prefix": f"{folder}/prefix"})
    said = ansible_playbook(
        f"--inventory={folder / 'hosts.json'}", "--limit=cp1,worker1", f"--extra-vars={extra}", str(folder / "play.yml")
    )
    for found in re.finditer(r"^(\S+) \| SUCCESS => (\{$.*?^\})", said, re.MULTILINE | re.DOTALL):
        shown = json.loads(found[2]).get("msg")
        if shown:
            (folder / found[1]).mkdir(exist_ok=True)
            (folder / found[1] / shown["name"]).write_text(shown["content"])
    return folder


def arguments_of(unit: Path) -> list[str]:
    """Verb and flags, as systemd starts them."""
    text = unit.read_text().replace("\\\n", " ")
    found = re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)
    assert found is not None
    return [word.replace("%%", "%") for word in shlex.split(found[1])[1:]]


def params_of(rendered: Path, machine: str, unit: str) -> dict[str, Any]:
    verb, *flags = arguments_of(rendered / machine / f"{unit}.service")
    for flag in flags:
        path = Path(flag.partition("=")[2])
        if path.is_relative_to(rendered) and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
    daemon = importlib.import_module(VERBS[verb][0]).DAEMON
    return command(daemon).make_context(verb, flags).params


def test_every_playbook_is_well_formed() -> None:
    playbooks = sorted(map(str, PLAYBOOKS.glob("*.yml")))

    said = ansible_playbook("--syntax-check", f"--inventory={PLAYBOOKS / 'inventory/example/hosts.yml'}", *playbooks)

    assert said.count("playbook: ") == len(playbooks) > 5


@pytest.mark.parametrize(("machine", "unit"), [(machine, unit) for machine in UNITS for unit in sorted(UNITS[machine])])
def test_the_daemon_understands_its_flags(rendered: Path, machine: str, unit: str) -> None:
    assert params_of(rendered, machine, unit)


@pytest.mark.parametrize("machine", UNITS)
def test_a_machine_gets_the_units_of_its_groups(rendered: Path, machine: str) -> None:
    assert {file.stem for file in (rendered / machine).glob("*.service")} == UNITS[machine]


@pytest.mark.parametrize("machine", UNITS)
def test_every_file_that_a_flag_names_is_given_to_the_machine(rendered: Path, machine: str, tmp_path: Path) -> None:
    given = json.loads((rendered / machine / "files.json").read_text())
    ensure(tmp_path, read(yaml.safe_load((rendered / machine / "cluster.yaml").read_text())))
    own = rendered / "etc"
    named = {
        flag.partition("=")[2]
        for unit in UNITS[machine]
        for flag in arguments_of(rendered / machine / f"{unit}.service")[1:]
        if flag.partition("=")[2].startswith(f"{own}/")
    }

    assert {path for path in named if Path(path).name not in BY_THE_KUBELET} <= {file["to"] for file in given}
    assert [file["from"] for file in given if not (tmp_path / file["from"]).exists()] == []


def test_a_worker_is_given_no_authority_and_nobody_elses_keys(rendered: Path) -> None:
    given = {file["from"] for file in json.loads((rendered / "worker1/files.json").read_text())}

    assert {"ca.crt", "machines/worker1/proxy.conf"} <= given
    assert not [name for name in given if "/" not in name and name != "ca.crt"]
    assert not [name for name in given if "/" in name and not name.startswith("machines/worker1/")]


@pytest.mark.parametrize("machine", UNITS)
def test_a_daemon_that_is_not_root_reaches_its_folder(rendered: Path, machine: str) -> None:
    folders = {each["folder"]: each for each in reversed(json.loads((rendered / machine / "sets.json").read_text()))}
    below = [folder for folder, each in folders.items() if each["group"] != "root" and Path(folder).is_relative_to(rendered)]

    assert below
    assert {folders[str(Path(folder).parent)].get("mode") for folder in below} == {"0755"}


def test_the_kubelet_understands_its_configuration(rendered: Path) -> None:
    worker, control = (kubelet_config((rendered / name / "config.yaml").read_text()) for name in ("worker1", "cp1"))

    assert (worker.cgroup_driver, worker.rotate_certificates, worker.anonymous_auth) == ("systemd", True, False)
    assert (worker.cluster_dns, worker.cluster_domain) == (("10.96.0.10",), "cluster.local")
    assert worker.register_with_taints == ()
    assert [taint["key"] for taint in control.register_with_taints] == ["node-role.kubernetes.io/control-plane"]
    assert params_of(rendered, "worker1", "kubelet")["node_labels"] == {"disk": "ssd", "zone": "a"}


@pytest.mark.parametrize(("machine", "unit"), [(machine, unit) for machine in UNITS for unit in sorted(UNITS[machine])])
def test_systemd_accepts_the_unit(rendered: Path, machine: str, unit: str) -> None:
    program = rendered / "prefix/current/bin/pybernetes"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    said = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(rendered / machine / f"{unit}.service")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (said.returncode, [line for line in said.stderr.splitlines() if unit in line]) == (0, [])


def test_each_machine_prefers_what_runs_on_it(rendered: Path) -> None:
    assert params_of(rendered, "cp1", "kube-apiserver")["etcd_servers"][0] == "https://192.0.2.1:2379"
    assert params_of(rendered, "worker1", "kube-balancer")["servers"] == ("192.0.2.1:6443", "192.0.2.2:6443")


def test_etcd_hears_nobody_without_a_certificate(rendered: Path) -> None:
    settings = dict(line.split("=", 1) for line in (rendered / "cp1/etcd.env").read_text().splitlines() if "=" in line)

    assert settings["ETCD_CLIENT_CERT_AUTH"] == settings["ETCD_PEER_CLIENT_CERT_AUTH"] == "true"
    assert settings["ETCD_INITIAL_CLUSTER"] == "cp1=https://192.0.2.1:2380,cp2=https://192.0.2.2:2380"
    assert all(url.startswith("https://") for name, urls in settings.items() if name.endswith("URLS") for url in urls.split(","))


@pytest.mark.parametrize(
    ("major", "version", "plugin"), [(1, 2, "io.containerd.grpc.v1.cri"), (2, 3, "io.containerd.cri.v1.runtime")]
)
def test_containerd_is_configured_for_its_version(rendered: Path, major: int, version: int, plugin: str) -> None:
    config = tomllib.loads((rendered / f"cp1/containerd-{major}.toml").read_text())

    assert config["version"] == version
    assert config["plugins"][plugin]["containerd"]["runtimes"]["runc"]["options"] == {"SystemdCgroup": True}


@pytest.mark.parametrize("unit", sorted(UNITS["cp1"] - {"kubelet", "kube-proxy"}))
def test_daemons_that_need_no_power_have_none(rendered: Path, unit: str) -> None:
    lines = (rendered / f"cp1/{unit}.service").read_text().splitlines()

    assert f"User={unit}" in lines
    assert {"CapabilityBoundingSet=", "NoNewPrivileges=yes", "ProtectSystem=strict", "Restart=always"} <= set(lines)
