"""Workers in pods, against a fake API server that reads every request with lightkube's models."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import UUID

import pytest
from msgspec.structs import replace

from taskforge.control.providers.kubernetes import KubernetesProvider
from taskforge.control.providers.provider import Departing, Fleet, ProviderFailed
from taskforge.domain.scaling_provider import KubernetesDeclaration
from tests.support.fake_kubernetes import (
    COST,
    NAME,
    FakeCluster,
    Refused,
    fake_kubernetes,
    write_kubeconfig,
)
from tests.support.front import Front


@pytest.fixture
def fake() -> Iterator[tuple[FakeCluster, Front]]:
    with fake_kubernetes(3) as made:
        yield made


@pytest.fixture
def cluster(fake: tuple[FakeCluster, Front]) -> FakeCluster:
    return fake[0]


@pytest.fixture
def declaration(fake: tuple[FakeCluster, Front], tmp_path: Path) -> KubernetesDeclaration:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", fake[1].url)
    return KubernetesDeclaration(deployment=NAME, kubeconfig=kubeconfig, timeout_seconds=5)


@pytest.fixture
async def provider(declaration: KubernetesDeclaration) -> AsyncIterator[KubernetesProvider]:
    made = KubernetesProvider(declaration)
    yield made
    await made.close()


def worker_in(pod: str) -> Departing:
    return Departing(worker_id=UUID(int=1), name="w", host=pod)


async def test_replicas_are_raised_and_never_twice(
    provider: KubernetesProvider, cluster: FakeCluster
) -> None:
    assert await provider.current() == Fleet(3, 3)
    await provider.scale_up(2, above=3)
    await provider.scale_up(2, above=3)  # said again by the next leader
    assert await provider.current() == Fleet(5, 5)
    await provider.scale_up(1, above=2)
    assert cluster.replicas == 5


async def test_exactly_the_pod_of_the_worker_goes(
    provider: KubernetesProvider, cluster: FakeCluster
) -> None:
    for pod in sorted(cluster.pods)[1:]:
        await provider.stop(worker_in(pod))
        await provider.stop(worker_in(pod))
        assert cluster.removed[-1] == pod
    assert cluster.replicas == 1
    assert len(cluster.removed) == 2


async def test_a_stop_that_was_cut_off_before_replicas_changed_is_finished(
    provider: KubernetesProvider, cluster: FakeCluster
) -> None:
    pod = sorted(cluster.pods)[1]
    # its reads and its mark go through, then whoever made it dies
    cluster.faults = []
    cluster.allowed = {("get", "deployments"), ("list", "pods"), ("patch", "pods")}
    with pytest.raises(ProviderFailed, match="may not scale Deployment workers"):
        await provider.stop(worker_in(pod))
    assert int(cluster.pods[pod]["metadata"]["annotations"][COST]) < 0
    assert cluster.replicas == 3
    cluster.allowed = None
    await provider.stop(worker_in(pod))
    assert (cluster.replicas, cluster.removed) == (2, [pod])


async def test_a_stop_that_was_cut_off_after_replicas_changed_costs_no_second_pod(
    provider: KubernetesProvider, cluster: FakeCluster
) -> None:
    cluster.works = False  # no pod is removed yet
    pod = sorted(cluster.pods)[1]
    await provider.stop(worker_in(pod))
    assert (cluster.replicas, cluster.removed) == (2, [])
    again = asyncio.create_task(provider.stop(worker_in(pod)))
    await asyncio.sleep(0.2)
    assert not again.done()
    cluster.works = True
    cluster.settle()
    await again
    assert (cluster.replicas, cluster.removed) == (2, [pod])


async def test_a_change_whose_answer_is_lost_is_not_made_twice(
    provider: KubernetesProvider, cluster: FakeCluster, fake: tuple[FakeCluster, Front]
) -> None:
    fake[1].loses = lambda asked: asked.method == "PUT"
    pod = min(cluster.pods)
    with pytest.raises(ProviderFailed, match="cannot be reached"):
        await provider.stop(worker_in(pod))
    with pytest.raises(ProviderFailed, match="cannot be reached"):
        await provider.scale_up(2, above=2)
    fake[1].loses = lambda _: False
    await provider.stop(worker_in(pod))
    await provider.scale_up(2, above=2)
    assert (cluster.replicas, cluster.removed) == (4, [pod])


async def test_a_stop_says_what_it_waits_for(
    declaration: KubernetesDeclaration, cluster: FakeCluster
) -> None:
    pod, other = sorted(cluster.pods)[:2]
    provider = KubernetesProvider(replace(declaration, timeout_seconds=0.6))
    cluster.set_ready(other, False)
    with pytest.raises(ProviderFailed) as caught:
        await provider.stop(worker_in(pod))
    assert str(caught.value) == (
        f"pod {pod} of Deployment workers in namespace jobs cannot be stopped yet: pod {other} is "
        f"not ready, and Kubernetes would remove it first"
    )
    assert caught.value.retry_after == 5
    assert cluster.replicas == 3
    await provider.close()


async def test_a_pod_that_never_came_is_given_up_with_the_worker(
    provider: KubernetesProvider, cluster: FakeCluster
) -> None:
    pod = min(cluster.pods)
    late = cluster.make_pod(pending_for=400)
    cluster.replicas = 4
    await provider.stop(worker_in(pod))
    assert cluster.replicas == 2
    assert set(cluster.removed) == {pod, late}


async def test_a_worker_elsewhere_is_not_stopped_by_a_pod(
    provider: KubernetesProvider, cluster: FakeCluster
) -> None:
    with pytest.raises(ProviderFailed, match="on host laptop, which is no pod of Deployment"):
        await provider.stop(worker_in("laptop"))
    await provider.stop(worker_in(f"{NAME}-7c9d4b8f6d-gone1"))
    assert cluster.replicas == 3


async def test_a_change_by_another_is_not_overwritten(
    provider: KubernetesProvider, cluster: FakeCluster
) -> None:
    cluster.others = ["once", "twice"]
    await provider.scale_up(1, above=3)
    assert cluster.replicas == 4
    cluster.others = ["always"] * 9
    with pytest.raises(ProviderFailed, match="changed by somebody else 5 times"):
        await provider.scale_up(1, above=4)
    pod = min(cluster.pods)
    cluster.others = ["once"]
    await provider.stop(worker_in(pod))
    assert (cluster.replicas, cluster.removed) == (3, [pod])


async def test_pods_are_read_in_pages(provider: KubernetesProvider, cluster: FakeCluster) -> None:
    await provider.scale_up(600, above=3)
    pod = max(cluster.pods)
    await provider.stop(worker_in(pod))
    assert (cluster.replicas, cluster.removed) == (602, [pod])


@pytest.mark.parametrize(
    ("refusal", "said", "retry_after"),
    [
        (
            Refused(403, "deployments is forbidden"),
            (
                "the credentials may not read Deployment workers in namespace jobs "
                "(deployments is forbidden)"
            ),
            None,
        ),
        (
            Refused(404, 'deployments.apps "workers" not found'),
            (
                "Deployment workers in namespace jobs does not exist "
                '(deployments.apps "workers" not found)'
            ),
            None,
        ),
        (
            Refused(429, "too many requests", {"Retry-After": "7"}),
            "Kubernetes wants fewer requests (too many requests)",
            7.0,
        ),
        (
            Refused(503, "apiserver is shutting down"),
            (
                "Kubernetes answered 503 about Deployment workers in namespace jobs "
                "(apiserver is shutting down)"
            ),
            None,
        ),
        (
            Refused(502, "bad gateway", {"content-type": "text/html"}),
            "Kubernetes answered 502 about Deployment workers in namespace jobs",
            None,
        ),
    ],
)
async def test_a_refusal_is_told_in_words(
    provider: KubernetesProvider,
    cluster: FakeCluster,
    refusal: Refused,
    said: str,
    retry_after: float | None,
) -> None:
    cluster.faults = [refusal]
    with pytest.raises(ProviderFailed) as caught:
        await provider.current()
    assert (str(caught.value), caught.value.retry_after) == (said, retry_after)
    assert await provider.current() == Fleet(3, 3)


async def test_bad_credentials_are_told(
    fake: tuple[FakeCluster, Front], declaration: KubernetesDeclaration, tmp_path: Path
) -> None:
    file = write_kubeconfig(tmp_path / "other", fake[1].url, token="stolen")
    provider = KubernetesProvider(replace(declaration, kubeconfig=file))
    with pytest.raises(
        ProviderFailed, match=r"^Kubernetes does not accept the credentials"
    ) as told:
        await provider.current()
    assert "stolen" not in str(told.value)
    await provider.close()
    provider = KubernetesProvider(replace(declaration, kubeconfig=str(tmp_path / "none")))
    with pytest.raises(ProviderFailed, match=r"none cannot be used .*not found"):
        await provider.current()


async def test_a_server_that_hangs_is_left_in_time(
    fake: tuple[FakeCluster, Front], declaration: KubernetesDeclaration
) -> None:
    provider = KubernetesProvider(replace(declaration, timeout_seconds=0.4))
    fake[1].hangs.set()
    for call in (
        provider.current,
        lambda: provider.scale_up(1, above=3),
        lambda: provider.stop(worker_in(f"{NAME}-7c9d4b8f6d-00001")),
    ):
        began = time.monotonic()
        with pytest.raises(ProviderFailed, match=r"did not answer about .* within 0\.4 s"):
            await call()
        assert time.monotonic() - began < 2
    await provider.close()


async def test_a_server_that_is_away_is_told(
    declaration: KubernetesDeclaration, tmp_path: Path
) -> None:
    file = write_kubeconfig(tmp_path / "away", "http://127.0.0.1:9")
    provider = KubernetesProvider(replace(declaration, kubeconfig=file))
    with pytest.raises(ProviderFailed, match=r"^Kubernetes cannot be reached: "):
        await provider.current()
    await provider.close()
