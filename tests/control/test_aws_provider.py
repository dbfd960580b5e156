"""Workers on instances of an Auto Scaling group, against moto's server."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from uuid import UUID

import pytest
from moto import settings as moto_settings
from msgspec.structs import replace

from taskforge.control.providers.aws import AwsProvider
from taskforge.control.providers.provider import Departing, Fleet, ProviderFailed
from taskforge.domain.scaling_provider import AwsDeclaration
from tests.support.fake_aws import GROUP, REGION, FakeAws, fake_aws, group_of, use_credentials
from tests.support.front import Answer, Asked


@pytest.fixture(scope="module")
def account() -> Iterator[FakeAws]:
    with fake_aws() as aws:
        yield aws


@pytest.fixture
def aws(account: FakeAws, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAws]:
    use_credentials(monkeypatch)
    with group_of(account, 2) as aws:
        yield aws


@pytest.fixture
def declaration(aws: FakeAws) -> AwsDeclaration:
    return AwsDeclaration(group=GROUP, region=REGION, endpoint_url=aws.front.url)


@pytest.fixture
async def provider(declaration: AwsDeclaration) -> AsyncIterator[AwsProvider]:
    made = AwsProvider(declaration)
    yield made
    await made.close()


def worker_on(instance: str) -> Departing:
    return Departing(worker_id=UUID(int=1), name="w", capabilities={"instance_id": instance})


async def test_instances_are_added_and_protected_and_never_twice(
    provider: AwsProvider, aws: FakeAws
) -> None:
    assert await provider.current() == Fleet(2, 2)
    await provider.scale_up(2, above=2)
    await provider.scale_up(2, above=2)  # said again by the next leader
    assert await provider.current() == Fleet(4, 4)
    assert aws.actions().count("SetDesiredCapacity") == 1
    assert aws.group()["NewInstancesProtectedFromScaleIn"] is True
    assert {one["ProtectedFromScaleIn"] for one in aws.group()["Instances"]} == {True}


async def test_exactly_the_instance_of_the_worker_ends(provider: AwsProvider, aws: FakeAws) -> None:
    await provider.scale_up(1, above=2)
    first, second, third = aws.instances()
    await provider.stop(worker_on(second))
    await provider.stop(worker_on(second))  # after a crash, nobody knows that it was done
    assert aws.instances() == [first, third]
    assert aws.group()["DesiredCapacity"] == 2
    host = Departing(worker_id=UUID(int=2), name="x", host=f"{third}.eu-central-1.compute.internal")
    await provider.stop(host)
    assert aws.instances() == [first]
    assert aws.actions().count("TerminateInstanceInAutoScalingGroup") == 2


async def test_an_instance_that_is_ending_already_is_not_ended_again(
    provider: AwsProvider, aws: FakeAws
) -> None:
    """With AWS that takes minutes; moto has it gone at once."""

    def answer(asked: Asked) -> Answer:
        answered = aws.answer(asked)
        return answered._replace(body=answered.body.replace(b"InService", b"Terminating:Wait"))

    aws.front.answer = answer
    await provider.stop(worker_on(aws.instances()[0]))
    assert aws.actions() == ["DescribeAutoScalingInstances"]
    assert aws.group()["DesiredCapacity"] == 2


async def test_a_stop_whose_answer_is_lost_is_not_made_twice(
    provider: AwsProvider, aws: FakeAws
) -> None:
    aws.front.loses = lambda asked: b"Action=Terminate" in asked.body
    with pytest.raises(ProviderFailed, match="cannot be reached"):
        await provider.stop(worker_on(aws.instances()[0]))
    aws.front.loses = lambda asked: b"Action=SetDesired" in asked.body
    with pytest.raises(ProviderFailed, match="cannot be reached"):
        await provider.scale_up(2, above=1)
    aws.front.loses = lambda _: False
    assert aws.actions().count("TerminateInstanceInAutoScalingGroup") == 1
    assert await provider.current() == Fleet(3, 3)


async def test_a_worker_of_no_known_instance_is_left_alone(
    provider: AwsProvider, aws: FakeAws
) -> None:
    with pytest.raises(ProviderFailed, match="instance of worker w is not known: give it the cap"):
        await provider.stop(Departing(worker_id=UUID(int=1), name="w", host="ip-10-0-0-7"))
    other = aws.client("autoscaling")
    other.create_auto_scaling_group(
        AutoScalingGroupName="theirs",
        LaunchConfigurationName="worker",
        MinSize=1,
        MaxSize=1,
        AvailabilityZones=[f"{REGION}a"],
    )
    theirs = other.describe_auto_scaling_groups(AutoScalingGroupNames=["theirs"])
    instance = theirs["AutoScalingGroups"][0]["Instances"][0]["InstanceId"]
    with pytest.raises(ProviderFailed, match="is of Auto Scaling group theirs and not of workers"):
        await provider.stop(worker_on(instance))
    assert len(aws.instances()) == 2


async def test_more_than_max_size_is_told_and_the_rest_is_had(
    provider: AwsProvider, aws: FakeAws
) -> None:
    with pytest.raises(ProviderFailed) as caught:
        await provider.scale_up(5, above=2)
    assert str(caught.value) == (
        f"Auto Scaling group workers in {REGION} has MaxSize 5, and 7 instances are wanted; raise "
        f"MaxSize, or lower max_workers of the policy"
    )
    assert await provider.current() == Fleet(5, 5)


async def test_a_missing_group_is_told(declaration: AwsDeclaration) -> None:
    provider = AwsProvider(replace(declaration, group="wrokers"))
    for call in (provider.current(), provider.scale_up(1, above=0)):
        with pytest.raises(ProviderFailed, match="group wrokers in eu-central-1 does not exist"):
            await call
    await provider.close()


async def test_credentials_that_are_bad_or_missing_are_told(
    declaration: AwsDeclaration, aws: FakeAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moto_settings, "INITIAL_NO_AUTH_ACTION_COUNT", 0)
    use_credentials(monkeypatch, "AKIASTOLEN", "wrong")
    provider = AwsProvider(declaration)
    with pytest.raises(ProviderFailed, match=r"^AWS does not accept the credentials ") as caught:
        await provider.current()
    assert "wrong" not in str(caught.value)
    await provider.close()
    use_credentials(monkeypatch, "", "")
    provider = AwsProvider(declaration)
    with pytest.raises(ProviderFailed, match=r"^there are no credentials for AWS"):
        await provider.current()
    await provider.close()
    provider = AwsProvider(replace(declaration, profile="nobody"))
    with pytest.raises(ProviderFailed, match="nobody"):
        await provider.current()
    await provider.close()


async def test_throttling_is_waited_out_a_little_and_then_told(
    provider: AwsProvider, aws: FakeAws
) -> None:
    aws.throttles = 1
    assert await provider.current() == Fleet(2, 2)
    aws.throttles = 9
    with pytest.raises(ProviderFailed, match=r"^AWS wants fewer requests") as caught:
        await provider.scale_up(1, above=2)
    assert caught.value.retry_after == 15
    aws.throttles = 0
    assert await provider.current() == Fleet(2, 2)


async def test_a_service_that_hangs_is_left_in_time_and_holds_up_no_loop(
    declaration: AwsDeclaration, aws: FakeAws
) -> None:
    aws.front.hangs.set()
    provider = AwsProvider(replace(declaration, timeout_seconds=2))
    provider._client()  # which takes a while where many things run
    began = time.monotonic()
    stopping = asyncio.create_task(provider.stop(worker_on("i-0123456789abcdef0")))
    while not aws.front.asked and not stopping.done():
        await asyncio.sleep(0.01)
    assert not stopping.done()  # it hangs, and here things go on
    with pytest.raises(ProviderFailed, match=r"^AWS did not answer about Auto .* within 2 s$"):
        await stopping
    assert time.monotonic() - began < 6
    aws.front.released.set()
    await provider.close()


async def test_a_group_at_its_min_size_says_so(provider: AwsProvider, aws: FakeAws) -> None:
    """Moto ends the instance anyway; AWS refuses."""
    aws.front.answer = lambda asked: (
        aws.answer(asked)
        if b"Action=Terminate" not in asked.body
        else aws.answer(asked)._replace(
            status=400,
            body=b"<ErrorResponse><Error><Code>ValidationError</Code><Message>Currently, "
            b"desiredSize equals minSize (2).</Message></Error></ErrorResponse>",
        )
    )
    with pytest.raises(ProviderFailed) as caught:
        await provider.stop(worker_on(aws.instances()[0]))
    assert str(caught.value) == (
        f"AWS refused TerminateInstanceInAutoScalingGroup for Auto Scaling group workers in "
        f"{REGION} (ValidationError: Currently, desiredSize equals minSize (2).)"
    )
