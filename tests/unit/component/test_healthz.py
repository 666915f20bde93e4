import pytest

from component.healthz import Health


def broken() -> None:
    raise RuntimeError("the disk is gone")


async def broken_later() -> None:
    raise RuntimeError("no answer")


async def test_health_is_a_bare_ok():
    report = await Health().report("/healthz")
    assert (report.code, report.body) == (200, "ok")


async def test_verbose_lists_the_checks_in_order():
    health = Health()
    health.add("log", lambda: None)
    report = await health.report("/livez", {"verbose": ""})
    assert report.body == "[+]ping ok\n[+]log ok\nlivez check passed\n"


async def test_a_failure_is_always_verbose_and_withholds_its_reason():
    health = Health()
    health.add("etcd", broken, probes=("readyz",))
    health.add("sync", broken_later, probes=("readyz",))
    report = await health.report("/readyz")
    assert report.code == 500
    assert report.body == ("[+]ping ok\n[-]etcd failed: reason withheld\n[-]sync failed: reason withheld\nreadyz check failed\n")
    assert (await health.report("/healthz")).code == 200


async def test_excluded_checks_pass_and_unknown_ones_are_told():
    health = Health()
    health.add("etcd", broken)
    report = await health.report("/readyz", {"verbose": ""}, ["etcd", "nope"])
    assert report.code == 200
    assert report.body == (
        '[+]ping ok\n[+]etcd excluded: ok\nwarn: some health checks cannot be excluded: no matches for "nope"\n'
        "readyz check passed\n"
    )


async def test_a_single_check_tells_its_reason():
    health = Health()
    health.add("etcd", broken)
    report = await health.report("/readyz/etcd")
    assert (report.code, report.body) == (500, "internal server error: the disk is gone\n")
    assert (await health.report("/readyz/ping")).body == "ok"


@pytest.mark.parametrize("path", ["/nope", "/readyz/nope", "/"])
async def test_other_paths_are_nobodys(path):
    assert await Health().report(path) is None
