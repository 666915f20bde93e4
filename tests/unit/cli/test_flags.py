"""The flags that kubeadm and operators of upstream write are taken by our daemons."""

import importlib
from pathlib import Path

import click
import pytest

from cli.__main__ import VERBS
from component.daemon import command

FILE = "{file}"
KUBEADM = {
    "apiserver": f"""--advertise-address=192.0.2.1 --allow-privileged=true --authorization-mode=Node,RBAC --client-ca-file={FILE}
        --enable-admission-plugins=NodeRestriction --enable-bootstrap-token-auth=true --kubelet-client-certificate={FILE}
        --kubelet-client-key={FILE} --kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname
        --proxy-client-cert-file={FILE} --proxy-client-key-file={FILE} --requestheader-allowed-names=front-proxy-client
        --requestheader-client-ca-file={FILE} --requestheader-extra-headers-prefix=X-Remote-Extra-
        --requestheader-group-headers=X-Remote-Group --requestheader-username-headers=X-Remote-User --secure-port=6443
        --service-account-issuer=https://kubernetes.default.svc.cluster.local --service-account-key-file={FILE}
        --service-account-signing-key-file={FILE} --service-cluster-ip-range=10.96.0.0/12 --tls-cert-file={FILE}
        --tls-private-key-file={FILE} --token-auth-file={FILE} --anonymous-auth --feature-gates=AllAlpha=false --v=4
        --event-ttl=2h --request-timeout=30s --profiling=false""",
    "controller-manager": f"""--allocate-node-cidrs=true --authentication-kubeconfig={FILE} --authorization-kubeconfig={FILE}
        --bind-address=127.0.0.1 --client-ca-file={FILE} --cluster-cidr=10.244.0.0/16 --cluster-name=kubernetes
        --cluster-signing-cert-file={FILE} --cluster-signing-key-file={FILE} --controllers=*,service-lb-controller,tokencleaner
        --kubeconfig={FILE} --leader-elect=true --requestheader-client-ca-file={FILE} --root-ca-file={FILE}
        --service-account-private-key-file={FILE} --service-cluster-ip-range=10.96.0.0/12
        --use-service-account-credentials=true --node-cidr-mask-size=24 --terminated-pod-gc-threshold=100 --profiling=false""",
    "scheduler": f"""--authentication-kubeconfig={FILE} --authorization-kubeconfig={FILE} --bind-address=127.0.0.1
        --kubeconfig={FILE} --leader-elect --leader-elect-lease-duration=15s --config={FILE} --secure-port=10259""",
    "kubelet": f"""--kubeconfig={FILE} --config={FILE} --container-runtime-endpoint=unix:///run/containerd/containerd.sock
        --hostname-override=n1 --node-ip=192.0.2.1 --pod-infra-container-image=registry.k8s.io/pause:3.10
        --cgroup-driver=cgroupfs --fail-swap-on=false --register-node --node-labels=a=b,c=d --max-pods=200
        --register-with-taints=a=b:NoSchedule --authorization-mode=Webhook --anonymous-auth=false
        --kube-reserved=cpu=100m --pod-manifest-path=/etc/kubernetes/manifests --cluster-dns=10.96.0.10""",
    "proxy": f"""--config={FILE} --hostname-override=n1 --kubeconfig={FILE} --proxy-mode=iptables --cluster-cidr=10.244.0.0/16
        --masquerade-all --iptables-min-sync-period=1s --metrics-bind-address=0.0.0.0:10249 --nodeport-addresses=primary""",
}


@pytest.mark.parametrize("verb", KUBEADM)
def test_upstream_s_command_lines_are_understood(verb: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    daemon = importlib.import_module(VERBS[verb][0]).DAEMON
    arguments = KUBEADM[verb].format(file=file).split()

    context: click.Context = command(daemon).make_context(verb, arguments)

    given = {argument.partition("=")[0].lstrip("-").replace("-", "_") for argument in arguments}
    assert given - {"v"} <= set(context.params)


@pytest.mark.parametrize("verb", KUBEADM)
def test_each_tells_its_version(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    daemon = importlib.import_module(VERBS[verb][0]).DAEMON
    with pytest.raises(SystemExit) as ended:
        command(daemon).main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("Kubernetes v1.36")


@pytest.mark.parametrize("verb", KUBEADM)
def test_an_unknown_flag_is_refused(verb: str) -> None:
    daemon = importlib.import_module(VERBS[verb][0]).DAEMON
    with pytest.raises(click.NoSuchOption, match="--kubeconfi"):
        command(daemon).make_context(verb, ["--kubeconfi=x"])


def test_controllers_of_upstream_s_that_are_not_here_are_no_mistake() -> None:
    from controlplane.controllers import catalog

    everything = [each.name for each in catalog.chosen(["*"])]
    assert [each.name for each in catalog.chosen(["*", "service-lb-controller", "-selinux-warning-controller"])] == everything
    with pytest.raises(click.UsageError, match="bootstrapsinger"):
        catalog.chosen(["*", "bootstrapsinger"])
