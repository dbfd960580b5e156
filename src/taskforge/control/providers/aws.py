"""Workers on the instances of an EC2 Auto Scaling group, one worker on each. Which instance to end
is known by the worker's capability `instance_id`, or by its host, where that begins with the id."""

import asyncio
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import boto3  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.exceptions import (  # type: ignore[import-untyped]
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    NoCredentialsError,
    PartialCredentialsError,
    ReadTimeoutError,
)

from taskforge.control.providers.provider import Departing, Fleet, ProviderFailed
from taskforge.domain.scaling_provider import AwsDeclaration

INSTANCE_ID = "instance_id"  # the capability
THROTTLED_WAIT_SECONDS = 15.0
PROTECTED_AT_ONCE = 50  # as many as AWS takes
_ATTEMPTS = 2
_THREADS = 4
_FORM = re.compile(r"i-[0-9a-f]{8,17}")
_BAD_CREDENTIALS = {
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "MissingAuthenticationToken",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
_NOT_ALLOWED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
_THROTTLED = {"RequestLimitExceeded", "Throttling", "ThrottlingException", "TooManyRequests"}
_BUSY = {"ScalingActivityInProgress", "ResourceContention", "ServiceUnavailable"}
T = TypeVar("T")


class AwsProvider:
    def __init__(self, declaration: AwsDeclaration) -> None:
        self._declaration = declaration
        self._group = declaration.group
        # threads of its own: one that waits for AWS keeps nobody else's work waiting
        self._threads = ThreadPoolExecutor(_THREADS, "aws")
        self._made: dict[int, Any] = {}  # clients, by how often they try

    async def current(self) -> Fleet:
        return await self._call(self._current)

    async def scale_up(self, count: int, *, above: int) -> None:
        await self._call(lambda: self._raise_to(above + count))

    async def stop(self, worker: Departing) -> None:
        instance = self._instance_of(worker)
        await self._call(lambda: self._end(worker, instance))

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    # in a thread

    def _current(self) -> Fleet:
        group = self._describe()
        running = sum(one["LifecycleState"] == "InService" for one in group["Instances"])
        return Fleet(int(group["DesiredCapacity"]), running)

    def _raise_to(self, wanted: int) -> None:
        group = self._describe()
        desired, most = int(group["DesiredCapacity"]), int(group["MaxSize"])
        if self._declaration.protect:
            self._protect(group)
        reached = min(wanted, most)
        if reached > desired:
            self._client().set_desired_capacity(
                AutoScalingGroupName=self._group, DesiredCapacity=reached, HonorCooldown=False
            )
        if wanted > most:
            raise ProviderFailed(
                f"{self._place} has MaxSize {most:,}, and {wanted:,} instances are wanted; raise "
                f"MaxSize, or lower max_workers of the policy"
            )

    def _protect(self, group: dict[str, Any]) -> None:
        """Instances from being ended by choice of AWS, which does not know who is at work."""
        client = self._client()
        if not group["NewInstancesProtectedFromScaleIn"]:
            client.update_auto_scaling_group(
                AutoScalingGroupName=self._group, NewInstancesProtectedFromScaleIn=True
            )
        open_to_it = [
            one["InstanceId"]
            for one in group["Instances"]
            if not one["ProtectedFromScaleIn"] and one["LifecycleState"] == "InService"
        ]
        for part in _parts(open_to_it, PROTECTED_AT_ONCE):
            client.set_instance_protection(
                AutoScalingGroupName=self._group, InstanceIds=part, ProtectedFromScaleIn=True
            )

    def _end(self, worker: Departing, instance: str) -> None:
        """It is looked at first: one that is ending already was counted already."""
        client = self._client()
        found = client.describe_auto_scaling_instances(InstanceIds=[instance])
        states = found["AutoScalingInstances"]
        if not states or states[0]["LifecycleState"].startswith("Terminat"):
            return
        group = states[0]["AutoScalingGroupName"]
        if group != self._group:
            raise ProviderFailed(
                f"worker {worker.name} runs on instance {instance}, which is of Auto Scaling group "
                f"{group} and not of {self._group}"
            )
        try:
            # once: a repeat that nobody looked before could take another from what is desired
            self._client(attempts=1).terminate_instance_in_auto_scaling_group(
                InstanceId=instance, ShouldDecrementDesiredCapacity=True
            )
        except ClientError as error:
            if "instance id not found" not in str(error).lower():
                raise

    def _describe(self) -> dict[str, Any]:
        found = self._client().describe_auto_scaling_groups(AutoScalingGroupNames=[self._group])
        groups: list[dict[str, Any]] = found["AutoScalingGroups"]
        if not groups:
            raise ProviderFailed(f"{self._place} does not exist")
        return groups[0]

    def _client(self, attempts: int = _ATTEMPTS) -> Any:
        """Made once; it is safe for several threads, and to make two of them is only waste."""
        made = self._made.get(attempts)
        if made is None:
            seconds = self._declaration.timeout_seconds / _ATTEMPTS
            config = Config(
                connect_timeout=min(5.0, seconds),
                read_timeout=seconds,
                retries={"total_max_attempts": attempts, "mode": "standard"},
                user_agent_appid="taskforge",
            )
            session = boto3.session.Session(
                profile_name=self._declaration.profile or None,
                region_name=self._declaration.region or None,
            )
            made = self._made[attempts] = session.client(
                "autoscaling",
                endpoint_url=self._declaration.endpoint_url or None,
                config=config,
            )
        return made

    # around it

    @property
    def _place(self) -> str:
        region = self._declaration.region
        for client in self._made.values():
            region = region or client.meta.region_name
        return f"Auto Scaling group {self._group}" + (f" in {region}" if region else "")

    def _instance_of(self, worker: Departing) -> str:
        named = worker.capabilities.get(INSTANCE_ID)
        if isinstance(named, str) and _FORM.fullmatch(named):
            return named
        host = worker.host.partition(".")[0]
        if _FORM.fullmatch(host):
            return host
        raise ProviderFailed(
            f"the instance of worker {worker.name} is not known: give it the capability "
            f"{INSTANCE_ID}, or instances the host name i-… (HostnameType resource-name); its host "
            f"is {worker.host or 'unknown'}"
        )

    async def _call(self, work: Callable[[], T]) -> T:
        """In a thread, in time, with errors in words. A thread cannot be broken off; it ends a
        little later, by the timeouts of its client."""
        seconds = self._declaration.timeout_seconds
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                return await loop.run_in_executor(self._threads, work)
        except (TimeoutError, ConnectTimeoutError, ReadTimeoutError):
            reason = f"AWS did not answer about {self._place} within {seconds:g} s"
            raise ProviderFailed(reason) from None
        except (NoCredentialsError, PartialCredentialsError) as error:
            raise ProviderFailed(f"there are no credentials for AWS: {error}") from None
        except ClientError as error:
            raise self._refused(error) from None
        except BotoCoreError as error:
            raise ProviderFailed(f"AWS cannot be reached: {error}") from None

    def _refused(self, error: Any) -> ProviderFailed:
        told = error.response.get("Error", {})
        code, said = str(told.get("Code", "")), str(told.get("Message", ""))[:300]
        operation = error.operation_name
        if code in _BAD_CREDENTIALS:
            return ProviderFailed(f"AWS does not accept the credentials ({code}: {said})")
        if code in _NOT_ALLOWED:
            return ProviderFailed(f"the credentials may not {operation} ({code}: {said})")
        if code in _THROTTLED:
            reason = f"AWS wants fewer requests ({code}: {said})"
            return ProviderFailed(reason, retry_after=THROTTLED_WAIT_SECONDS)
        wait = THROTTLED_WAIT_SECONDS if code in _BUSY else None
        reason = f"AWS refused {operation} for {self._place} ({code}: {said})"
        return ProviderFailed(reason, retry_after=wait)


def _parts(values: Sequence[str], size: int) -> list[list[str]]:
    return [list(values[first : first + size]) for first in range(0, len(values), size)]
