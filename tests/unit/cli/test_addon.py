"""What ``pybernetes addon`` prints is what ``kubectl apply`` takes: the objects that ``up`` gives its own cluster."""

import pytest
import yaml
from click.testing import CliRunner

from bootstrap.cluster_dns import objects
from cli.__main__ import cli


@pytest.mark.parametrize("address", ["10.96.0.10", "fd00::a"])
def test_dns_prints_the_service_and_the_roles(address: str) -> None:
    done = CliRunner().invoke(cli, ["addon", "dns", f"--cluster-dns={address}"])

    assert done.exit_code == 0, done.output
    assert list(yaml.safe_load_all(done.output)) == [document for _, document in objects(address)]


def test_dns_refuses_what_is_no_address() -> None:
    done = CliRunner().invoke(cli, ["addon", "dns", "--cluster-dns=10.96.0.0/12"])

    assert done.exit_code == 2
    assert "--cluster-dns: '10.96.0.0/12' does not appear to be an IPv4 or IPv6 address" in done.output
