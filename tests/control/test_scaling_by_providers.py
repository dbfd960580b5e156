"""The leader's autoscaler with real providers: pods on a fake API server, instances on moto's."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from taskforge.control.autoscaler import Autoscaler
from taskforge.control.leader import Term, steady_seconds
from taskforge.control.providers.factory import make_provider
from taskforge.domain.changes import CancelJob
from taskforge.domain.queue_scaling import QueueScaling
from taskforge.domain.scaling import SCALED_BY
from taskforge.domain.scaling_provider import (
    AwsDeclaration,
    Declaration,
    KubernetesDeclaration,
)
from taskforge.domain.worker import Registered, Sample
from taskforge.operations.scaling import StoreScaling
from taskforge.storage.records.scaling import ScalingRecords
from tests.support.fake_aws import GROUP, REGION, FakeAws, fake_aws, group_of, use_credentials
from tests.support.fake_kubernetes import NAME, FakeCluster, fake_kubernetes, write_kubeconfig
from tests.support.front import Front
from tests.support.world import World


@pytest.fixture(scope="module")
def account() -> Iterator[FakeAws]:
    with fake_aws() as aws:
        yield aws


@pytest.fixture
def aws(account: FakeAws, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAws]:
    use_credentials(monkeypatch)
    with group_of(account, 0, most=2) as aws:
        yield aws


@pytest.fixture
def kubernetes() -> Iterator[tuple[FakeCluster, Front]]:
    with fake_kubernetes(0) as made:
        yield made


@pytest.fixture
def cluster(kubernetes: tuple[FakeCluster, Front]) -> FakeCluster:
    return kubernetes[0]


class Fleets:
    """Queue `pods` has its workers from Kubernetes, queue `machines` from AWS."""

    def __init__(self, world: World, declared: dict[str, Declaration]) -> None:
        self.world = world
        self.scaling = StoreScaling(world.engine, declared)
        self.records = ScalingRecords(world.engine)
        self.scaler = Autoscaler(world.engine, declared, make_provider)
        self.workers: dict[str, Registered] = {}

    async def policy(self, name: str, **fields: Any) -> QueueScaling:
        usual = {"max_workers": 5, "provider": name, "target_queue_length": 10}
        return await self.scaling.put(await self.world.queue(name), usual | fields, None, None)

    async def look(self, seconds: float = 5.0) -> None:
        self.world.clock.advance(seconds)
        for one in self.workers.values():
            await self.world.engine.renew(one.incarnation, 1e6, Sample())
        await self.scaler.look(Term(0, steady_seconds() + 60, steady_seconds))
        await self.scaler.settle()

    async def follow(self, queue: str, hosts: list[str]) -> None:
        """A worker comes with each new host, and goes with each that is gone."""
        for host in set(hosts) - set(self.workers):
            self.workers[host] = await self.world.online_worker(
                host, queues=(queue,), host=host, capabilities={SCALED_BY: queue}
            )
        for host in set(self.workers) - set(hosts):
            await self.world.engine.deregister(self.workers.pop(host).incarnation)

    async def cancel(self, jobs: list[UUID]) -> None:
        await self.world.engine.change([self.world.engine.home], jobs, CancelJob())

    async def history(self, queue: str) -> list[str]:
        """The oldest first."""
        found = await self.scaling.history([self.world.engine.home])
        return [f"{one.news} {one.count}" for one in reversed(found) if one.queue == queue]

    async def error(self, policy: QueueScaling) -> str | None:
        found = await self.records.find(policy.queue_id)
        assert found is not None
        return found.state.error


@pytest.fixture
async def fleets(
    world: World, kubernetes: tuple[FakeCluster, Front], aws: FakeAws, tmp_path: Path
) -> AsyncIterator[Fleets]:
    file = write_kubeconfig(tmp_path / "kubeconfig", kubernetes[1].url)
    everybody: dict[str, Any] = {"projects": ("*",), "timeout_seconds": 10}
    url = aws.front.url
    made = Fleets(
        world,
        {
            "pods": KubernetesDeclaration(deployment=NAME, kubeconfig=file, **everybody),
            "machines": AwsDeclaration(group=GROUP, region=REGION, endpoint_url=url, **everybody),
        },
    )
    yield made
    await made.scaler.close()


async def test_pods_come_for_a_burst_and_exactly_the_drained_ones_go(
    fleets: Fleets, world: World, cluster: FakeCluster
) -> None:
    await fleets.policy("pods")
    jobs = await world.enqueue_many(30, "pods")
    await fleets.look()
    assert cluster.replicas == 3
    await fleets.follow("pods", list(cluster.pods))
    busy = min(cluster.pods)
    [running] = await world.claim_jobs(fleets.workers[busy], 1)
    await fleets.cancel([job for job in jobs if job != running])
    await fleets.look(60)
    await fleets.look(130)  # drains two, and the one at work is not among them
    await fleets.look()
    assert (cluster.replicas, list(cluster.pods)) == (1, [busy])
    await fleets.follow("pods", list(cluster.pods))
    await fleets.look()
    history = await fleets.history("pods")
    assert history == ["scale_up 3", "scale_down 2", "stopped 1", "stopped 1"]


async def test_a_stop_that_must_wait_holds_up_no_new_worker(
    fleets: Fleets, world: World, cluster: FakeCluster
) -> None:
    policy = await fleets.policy("pods", missing_after_seconds=60)
    jobs = await world.enqueue_many(30, "pods")
    await fleets.look()
    await fleets.follow("pods", list(cluster.pods))
    await fleets.cancel(jobs)
    await fleets.look(60)
    other = cluster.make_pod(pending_for=1)  # somebody else scaled, and it finds no machine
    cluster.replicas += 1
    await fleets.look(130)
    await fleets.look()
    assert cluster.removed == []
    assert f"pod {other} is pending" in (await fleets.error(policy) or "")
    await world.enqueue_many(50, "pods")
    await fleets.look(30)
    assert cluster.replicas == 8  # five for the jobs, beside three that are drained
    cluster.pods[other]["status"] = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    await fleets.look(400)
    assert len(cluster.removed) == 3
    assert await fleets.error(policy) is None


async def test_a_group_at_its_max_size_says_so_and_is_emptied_all_the_same(
    fleets: Fleets, world: World, aws: FakeAws
) -> None:
    policy = await fleets.policy("machines")
    jobs = await world.enqueue_many(50, "machines")
    await fleets.look()
    told = await fleets.error(policy)
    assert told is not None
    assert "has MaxSize 2, and 5 instances are wanted" in told
    assert (await fleets.history("machines"))[-1] == "failed 0"
    await fleets.follow("machines", aws.instances())
    assert len(fleets.workers) == 2
    await fleets.cancel(jobs)
    for _ in range(6):
        await fleets.look(300)
        await fleets.follow("machines", aws.instances())
    assert aws.instances() == []
    assert await fleets.error(policy) is None
    history = await fleets.history("machines")
    assert history.count("failed 0") == 1
    assert history[-3:] == ["scale_down 2", "stopped 1", "stopped 1"]


async def test_a_provider_that_fails_holds_up_no_other(
    fleets: Fleets, world: World, cluster: FakeCluster, aws: FakeAws
) -> None:
    machines, pods = await fleets.policy("machines"), await fleets.policy("pods")
    for queue in ("machines", "pods"):
        await world.enqueue_many(20, queue)
    aws.throttles = 99
    await fleets.look()
    assert cluster.replicas == 2
    assert (await fleets.error(machines) or "").startswith("AWS wants fewer requests")
    aws.throttles = 0
    cluster.allowed = set()
    await fleets.follow("pods", list(cluster.pods))
    await world.enqueue_many(20, "pods")
    await fleets.look(60)
    assert len(aws.instances()) == 2
    assert (await fleets.error(pods) or "").startswith("the credentials may not read Deployment")
    assert await fleets.error(machines) is None
