"""Workers in the pods of a Deployment. The host of such a worker is the name of its pod, which is
how the pod to end is known."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import httpx2
from lightkube import ApiError, AsyncClient, ConfigError, KubeConfig
from lightkube.models.autoscaling_v1 import ScaleSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import Deployment, DeploymentScale
from lightkube.resources.core_v1 import Pod
from lightkube.types import PatchType

from taskforge.control.providers.pod_removal import (
    DELETION_COST,
    IsGone,
    Lower,
    MustWait,
    Removal,
    SeenDeployment,
    SeenPod,
    plan_removal,
)
from taskforge.control.providers.provider import Departing, Fleet, ProviderFailed
from taskforge.domain.scaling_provider import KubernetesDeclaration

CONFLICTS = 5  # with others who change the same Deployment, before it is told
LOOK_SECONDS = 0.5
PODS_AT_ONCE = 200  # of a list; to read more would keep the loop from others
SHORT_WAIT_SECONDS = 5.0
_PREFIX = 58  # of the name of a pod, in front of five random characters
logger = logging.getLogger("taskforge.scaling")


class KubernetesProvider:
    def __init__(self, declaration: KubernetesDeclaration) -> None:
        self._declaration = declaration
        self._name = declaration.deployment
        self._connected: AsyncClient | None = None
        self._lock = asyncio.Lock()

    async def current(self) -> Fleet:
        async with self._bounded("read"):
            deployment = await self._read()
        status = deployment.status
        ready = 0 if status is None or status.readyReplicas is None else status.readyReplicas
        return Fleet(_replicas(deployment), ready)

    async def scale_up(self, count: int, *, above: int) -> None:
        async with self._bounded("scale"):
            for _ in range(CONFLICTS):
                deployment = await self._read()
                if _replicas(deployment) >= above + count:
                    return
                if await self._set_replicas(deployment, above + count):
                    return
        raise self._contended()

    async def stop(self, worker: Departing) -> None:
        if not worker.host.startswith(f"{self._name}-"[:_PREFIX]):
            raise ProviderFailed(
                f"worker {worker.name} runs on host {worker.host or '(unknown)'}, which is no pod "
                f"of {self._place}; a pod's host is its name"
            )
        async with self._bounded("scale"):
            until = asyncio.get_running_loop().time() + self._declaration.timeout_seconds / 2
            for _ in range(CONFLICTS):
                deployment, removal = await self._look(worker.host)
                while isinstance(removal, MustWait):
                    if asyncio.get_running_loop().time() + LOOK_SECONDS > until:
                        raise ProviderFailed(
                            f"pod {worker.host} of {self._place} cannot be stopped yet: "
                            f"{removal.reason}",
                            retry_after=SHORT_WAIT_SECONDS,
                        )
                    await asyncio.sleep(LOOK_SECONDS)
                    deployment, removal = await self._look(worker.host)
                if isinstance(removal, IsGone) or await self._lower(deployment, removal):
                    return
        raise self._contended()

    async def close(self) -> None:
        if self._connected is not None:
            await self._connected.close()
            self._connected = None

    @property
    def _place(self) -> str:
        namespace = self._declaration.namespace
        if not namespace and self._connected is not None:
            namespace = self._connected.namespace
        return f"Deployment {self._name}" + (f" in namespace {namespace}" if namespace else "")

    async def _client(self) -> AsyncClient:
        async with self._lock:
            if self._connected is None:
                # it reads files, certificates among them
                self._connected = await asyncio.to_thread(_connect, self._declaration)
        return self._connected

    async def _read(self) -> Deployment:
        client = await self._client()
        return await client.get(Deployment, self._name)

    async def _look(self, pod: str) -> tuple[Deployment, Removal]:
        client = await self._client()
        deployment = await self._read()
        now = datetime.now(UTC)
        labels = deployment.spec.selector.matchLabels
        pods = [
            _seen(one, now)
            async for one in client.list(Pod, labels=labels, chunk_size=PODS_AT_ONCE)
        ]
        own = [one for one in pods if one.replica_set.rpartition("-")[0] == self._name]
        seen = SeenDeployment(
            replicas=_replicas(deployment),
            is_observed=_is_observed(deployment),
            is_refused=_is_refused(deployment),
            pods=own,
        )
        return deployment, plan_removal(seen, pod, self._declaration.pending_seconds)

    async def _lower(self, deployment: Deployment, removal: Lower) -> bool:
        """Whether it was done; else somebody else changed something at the same time."""
        client = await self._client()
        for pod in removal.pods:
            if pod.cost == removal.cost:
                continue
            marked = {"uid": pod.uid, "annotations": {DELETION_COST: str(removal.cost)}}
            try:
                patch = {"metadata": marked}
                await client.patch(Pod, pod.name, patch, patch_type=PatchType.MERGE)
            except ApiError as error:
                if error.response.status_code in (
                    404,
                    409,
                ):  # it ends just now, or is another by now
                    return False
                raise
        return await self._set_replicas(deployment, removal.replicas)

    async def _set_replicas(self, deployment: Deployment, replicas: int) -> bool:
        """Unless the Deployment was changed since it was read."""
        client = await self._client()
        read = deployment.metadata
        version = None if read is None else read.resourceVersion
        metadata = ObjectMeta(name=self._name, namespace=client.namespace, resourceVersion=version)
        scale = DeploymentScale(metadata=metadata, spec=ScaleSpec(replicas=replicas))
        try:
            await client.replace(scale, self._name)
        except ApiError as error:
            if error.response.status_code != 409:
                raise
            return False
        return True

    def _contended(self) -> ProviderFailed:
        return ProviderFailed(
            f"{self._place} was changed by somebody else {CONFLICTS} times at the same moment",
            retry_after=SHORT_WAIT_SECONDS,
        )

    @asynccontextmanager
    async def _bounded(self, verb: str) -> AsyncIterator[None]:
        """Ends in time, and tells errors in words."""
        seconds = self._declaration.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                yield
        except (TimeoutError, httpx2.TimeoutException):
            reason = f"Kubernetes did not answer about {self._place} within {seconds:g} s"
            raise ProviderFailed(reason) from None
        except httpx2.HTTPStatusError as error:
            raise self._refused(verb, error) from None
        except httpx2.HTTPError as error:
            problem = str(error) or type(error).__name__
            raise ProviderFailed(f"Kubernetes cannot be reached: {problem}") from None
        except (ConfigError, OSError) as error:
            raise ProviderFailed(
                f"the credentials for Kubernetes cannot be read: {error}"
            ) from None
        except (ValueError, KeyError) as error:  # what a proxy answers, lightkube cannot read
            reason = f"what was answered about {self._place} is not from Kubernetes: {error}"
            raise ProviderFailed(reason) from None

    def _refused(self, verb: str, error: httpx2.HTTPStatusError) -> ProviderFailed:
        code = error.response.status_code
        said = error.status.message if isinstance(error, ApiError) else None
        said = f" ({said[:300]})" if said else ""
        wait = error.response.headers.get("retry-after", "")
        retry_after = float(wait) if wait.isdigit() else None
        match code:
            case 401:
                reason = "Kubernetes does not accept the credentials"
            case 403:
                reason = f"the credentials may not {verb} {self._place}"
            case 404:
                reason = f"{self._place} does not exist"
            case 429:
                reason = "Kubernetes wants fewer requests"
            case _:
                reason = f"Kubernetes answered {code} about {self._place}"
        return ProviderFailed(reason + said, retry_after=retry_after)


def _connect(declaration: KubernetesDeclaration) -> AsyncClient:
    try:
        if declaration.kubeconfig:
            file = KubeConfig.from_file(declaration.kubeconfig)
            config = file.get(declaration.context or None)
        else:
            config = KubeConfig.from_env().get()
        return AsyncClient(
            config,
            namespace=declaration.namespace or None,
            timeout=httpx2.Timeout(declaration.timeout_seconds),
            field_manager="taskforge",
        )
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the user's files
        where = declaration.kubeconfig or "the service account and the kubeconfig"
        problem = f"{type(error).__name__}: {error}"
        raise ProviderFailed(
            f"Kubernetes cannot be reached: {where} cannot be used ({problem})"
        ) from None


def _replicas(deployment: Deployment) -> int:
    return 1 if deployment.spec.replicas is None else deployment.spec.replicas


def _is_observed(deployment: Deployment) -> bool:
    status, metadata = deployment.status, deployment.metadata
    if status is None or metadata is None:
        return False
    return (status.observedGeneration or 0) >= (metadata.generation or 0)


def _is_refused(deployment: Deployment) -> bool:
    conditions = () if deployment.status is None else deployment.status.conditions or ()
    return any(one.type == "ReplicaFailure" and one.status == "True" for one in conditions)


def _seen(pod: Pod, now: datetime) -> SeenPod:
    metadata, status = pod.metadata, pod.status
    assert metadata is not None
    phase = "" if status is None else status.phase
    conditions = () if status is None else status.conditions or ()
    owners = [one.name for one in metadata.ownerReferences or () if one.kind == "ReplicaSet"]
    cost = (metadata.annotations or {}).get(DELETION_COST, "0")
    since = metadata.creationTimestamp
    pending = (now - since).total_seconds() if phase == "Pending" and since else None
    return SeenPod(
        name=metadata.name or "",
        uid=metadata.uid or "",
        replica_set=owners[0] if owners else "",
        cost=int(cost) if cost.lstrip("-").isdigit() else 0,
        ready=any(one.type == "Ready" and one.status == "True" for one in conditions),
        pending_seconds=pending,
        ending=metadata.deletionTimestamp is not None or phase in ("Succeeded", "Failed"),
    )
