"""A fake API server of Kubernetes with one Deployment, and a ReplicaSet that removes pods in the
order of the real one. Whatever is asked is read by the models of lightkube, and noted as a breach
where the real server would refuse it."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from lightkube.models.autoscaling_v1 import Scale
from lightkube.models.meta_v1 import ObjectMeta

from tests.support.front import Answer, Asked, Front, served

COST = "controller.kubernetes.io/pod-deletion-cost"
TOKEN = "token-of-the-leader"
NAME, NAMESPACE = "workers", "jobs"
_ROUTES = (
    (r"/apis/apps/v1/namespaces/jobs/deployments/([^/]+)/scale", "deployments/scale"),
    (r"/apis/apps/v1/namespaces/jobs/deployments/([^/]+)", "deployments"),
    (r"/api/v1/namespaces/jobs/pods/([^/]+)", "pods"),
    (r"/api/v1/namespaces/jobs/pods()", "pods"),
)
_PARAMETERS = {"labelSelector", "limit", "continue", "fieldManager"}
_INT32 = re.compile(r"0|-?[1-9]\d*")


class Refused(Exception):
    def __init__(self, code: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.code, self.headers = code, headers or {}


class FakeCluster:
    def __init__(self, replicas: int) -> None:
        self.replicas = replicas
        self.generation = self.observed = 1
        self.version = 100
        self.pods: dict[str, dict[str, Any]] = {}
        self.made = 0
        self.works = True  # its controllers
        self.quota: int | None = None
        self.allowed: set[tuple[str, str]] | None = None  # verb and resource; None: all
        self.faults: list[Refused] = []
        self.others: list[str] = []  # before each of these writes another changes the Deployment
        self.breaches: list[str] = []
        self.removed: list[str] = []
        self.lock = threading.RLock()
        self.settle()

    # what its controllers do

    def settle(self) -> None:
        with self.lock:
            self.observed = self.generation
            while len(self.alive()) < self.replicas and not self._is_full():
                self.make_pod()
            surplus = len(self.alive()) - self.replicas
            for name in sorted(self.alive(), key=self._rank)[: max(0, surplus)]:
                self.removed.append(name)
                del self.pods[name]

    def _is_full(self) -> bool:
        return self.quota is not None and len(self.alive()) >= self.quota

    def _rank(self, name: str) -> tuple[bool, bool, int, float]:
        """First to last, as in kubernetes/pkg/controller: ActivePodsWithRanks."""
        pod = self.pods[name]
        cost = int(pod["metadata"].get("annotations", {}).get(COST, "0"))
        started = datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()
        return pod["status"]["phase"] != "Pending", _is_ready(pod), cost, -started

    def make_pod(self, *, pending_for: float | None = None, replica_set: str = "") -> str:
        self.made += 1
        rs = replica_set or f"{NAME}-7c9d4b8f6d"
        name = f"{rs}-{self.made:05d}"
        born = datetime.now(UTC) - timedelta(seconds=pending_for or 0)
        self.pods[name] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": f"uid-{self.made}",
                "labels": {"app": NAME},
                "creationTimestamp": born.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": rs, "uid": f"uid-{rs}"}
                ],
            },
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }
        if pending_for is not None:
            self.pods[name]["status"] = {"phase": "Pending"}
        return name

    def set_ready(self, name: str, is_ready: bool) -> None:
        self.pods[name]["status"]["conditions"][0]["status"] = str(is_ready)

    def alive(self) -> list[str]:
        return [n for n, pod in self.pods.items() if "deletionTimestamp" not in pod["metadata"]]

    # what it is asked

    def answer(self, asked: Asked) -> Answer:
        with self.lock:
            try:
                return _json(200, self._serve(asked))
            except Refused as refused:
                status = {
                    "apiVersion": "v1",
                    "kind": "Status",
                    "metadata": {},
                    "status": "Failure",
                    "message": str(refused),
                    "code": refused.code,
                }
                return _json(refused.code, status, refused.headers)

    def _breach(self, code: int, message: str) -> Refused:
        self.breaches.append(message)
        return Refused(code, message)

    def _serve(self, asked: Asked) -> dict[str, Any]:
        if asked.headers.get("authorization") != f"Bearer {TOKEN}":
            raise Refused(401, "Unauthorized")
        if self.faults:
            raise self.faults.pop(0)
        url = urlsplit(asked.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if unknown := set(query) - _PARAMETERS:
            raise self._breach(400, f"unknown parameters {unknown}")
        routes = [(re.fullmatch(pattern, url.path), resource) for pattern, resource in _ROUTES]
        names = [(match[1], resource) for match, resource in routes if match]
        if not names:
            raise self._breach(404, f"the server could not find {url.path}")
        name, resource = names[0]
        verbs = {"GET": "get" if name else "list", "PUT": "update", "PATCH": "patch"}
        verb = verbs.get(asked.method, asked.method)
        if self.allowed is not None and (verb, resource) not in self.allowed:
            raise Refused(
                403,
                f'{resource} "{name}" is forbidden: User "system:serviceaccount:jobs:taskforge" '
                f'cannot {verb} resource "{resource}" in the namespace "jobs"',
            )
        match verb, resource:
            case "get", "deployments":
                return self._deployment(name)
            case "update", "deployments/scale":
                return self._scale(name, asked)
            case "list", "pods":
                return self._list(query)
            case "patch", "pods":
                return self._patch(name, asked)
        raise self._breach(405, f"nobody should {verb} {resource}")

    def _deployment(self, name: str) -> dict[str, Any]:
        if name != NAME:
            raise Refused(404, f'deployments.apps "{name}" not found')
        ready = sum(_is_ready(self.pods[one]) for one in self.alive())
        status: dict[str, Any] = {"observedGeneration": self.observed, "readyReplicas": ready}
        if self._is_full():
            status["conditions"] = [{"type": "ReplicaFailure", "status": "True"}]
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": NAME,
                "namespace": NAMESPACE,
                "uid": "uid-deployment",
                "generation": self.generation,
                "resourceVersion": str(self.version),
            },
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": {"app": NAME}},
                "template": {"metadata": {"labels": {"app": NAME}}},
            },
            "status": {name: value for name, value in status.items() if value},
        }

    def _scale(self, name: str, asked: Asked) -> dict[str, Any]:
        if asked.headers.get("content-type") != "application/json":
            raise self._breach(415, f"an update came as {asked.headers.get('content-type')}")
        scale = self._strictly(asked.body, Scale)
        metadata = scale.metadata or ObjectMeta()
        body = json.loads(asked.body)
        if (body.get("apiVersion"), body.get("kind")) != ("autoscaling/v1", "Scale"):
            raise self._breach(400, "the object is no Scale of autoscaling/v1")
        if metadata.name != name or metadata.namespace != NAMESPACE:
            raise self._breach(400, "the name of the object does not match that of the URL")
        if scale.spec is None or scale.spec.replicas is None or scale.spec.replicas < 0:
            raise self._breach(422, "spec.replicas must be 0 or more")
        if self.others and self.others.pop(0):
            self.version += 1
        if metadata.resourceVersion != str(self.version):
            message = (
                f'Operation cannot be fulfilled on deployments.apps "{name}": the object has '
                f"been modified; please apply your changes to the latest version and try again"
            )
            raise Refused(409, message)
        if scale.spec.replicas != self.replicas:
            self.replicas = scale.spec.replicas
            self.generation += 1
        self.version += 1
        if self.works:
            self.settle()
        return body | {"status": {"replicas": len(self.alive())}}

    def _list(self, query: dict[str, str]) -> dict[str, Any]:
        if query.get("labelSelector") != f"app={NAME}":
            raise self._breach(400, f"pods of {query.get('labelSelector')} were asked for")
        pods = list(self.pods.values())
        first, limit = int(query.get("continue", 0)), int(query.get("limit", len(pods) or 1))
        rest = {"continue": str(first + limit)} if first + limit < len(pods) else {}
        return {
            "apiVersion": "v1",
            "kind": "PodList",
            "metadata": {"resourceVersion": str(self.version), **rest},
            "items": pods[first : first + limit],
        }

    def _patch(self, name: str, asked: Asked) -> dict[str, Any]:
        kind = asked.headers.get("content-type")
        if kind not in ("application/merge-patch+json", "application/strategic-merge-patch+json"):
            raise self._breach(415, f"a patch came as {kind}")
        body = json.loads(asked.body)
        if set(body) != {"metadata"}:
            raise self._breach(422, f"{set(body)} of a pod were to be changed")
        metadata = self._strictly(json.dumps(body["metadata"]).encode(), ObjectMeta)
        pod = self.pods.get(name)
        if pod is None:
            raise Refused(404, f'pods "{name}" not found')
        if metadata.uid is not None and metadata.uid != pod["metadata"]["uid"]:
            raise Refused(409, "Precondition failed: UID in precondition")
        for value in (metadata.annotations or {}).values():
            if not isinstance(value, str) or not _INT32.fullmatch(value):
                raise self._breach(422, f"{value!r} is no cost of deletion")
            if not -(2**31) <= int(value) < 2**31:
                raise self._breach(422, f"{value} does not fit 32 bits")
        pod["metadata"].setdefault("annotations", {}).update(metadata.annotations or {})
        return pod

    def _strictly(self, body: bytes, model: Any) -> Any:
        """Also a field that the model does not have is a breach."""
        try:
            value = msgspec.json.decode(body, type=model)
        except msgspec.ValidationError as error:
            raise self._breach(422, str(error)) from None
        if json.loads(msgspec.json.encode(value)) != json.loads(body):
            raise self._breach(400, f"the body has fields that {model.__name__} has not: {body!r}")
        return value


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _json(code: int, value: Any, headers: dict[str, str] | None = None) -> Answer:
    kind = {"content-type": "application/json"}
    return Answer(code, json.dumps(value).encode(), kind | (headers or {}))


def write_kubeconfig(path: Path, url: str, token: str = TOKEN) -> str:
    """As kubectl reads it; JSON is YAML."""
    document = {
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": url}}],
        "users": [{"name": "leader", "user": {"token": token}}],
        "contexts": [
            {"name": "test", "context": {"cluster": "test", "user": "leader", "namespace": "jobs"}}
        ],
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


@contextmanager
def fake_kubernetes(replicas: int) -> Iterator[tuple[FakeCluster, Front]]:
    cluster = FakeCluster(replicas)
    with served(cluster.answer) as front:
        yield cluster, front
    assert not cluster.breaches
