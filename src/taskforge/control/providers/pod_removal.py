"""Which change of a Deployment ends exactly one pod, and whether it may be made now.

Kubernetes has no call for that. Whoever lowers the replicas of a Deployment leaves the choice of
the pod to its ReplicaSet, which takes pods that are pending first, then those that are not ready,
then the one with the lowest cost of deletion. So the cost is set below all others, and nothing is
lowered while another pod would be taken before it."""

from collections.abc import Sequence

import msgspec

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
MARK = -1_000_000  # a cost as low as that was set here
_LEAST_COST = -(2**31) + 1


class SeenPod(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    uid: str
    replica_set: str
    cost: int = 0
    ready: bool = True
    pending_seconds: float | None = None  # None: it is not pending
    ending: bool = False  # it is told to end, or has ended: its ReplicaSet does not count it

    @property
    def is_marked(self) -> bool:
        return self.cost <= MARK


class SeenDeployment(msgspec.Struct, frozen=True, kw_only=True):
    replicas: int
    is_observed: bool  # whether its controller has seen the last change
    is_refused: bool = False  # whether no pods can be made for it, because of a quota for instance
    pods: Sequence[SeenPod]


class IsGone(msgspec.Struct, frozen=True):
    """There is nothing to do."""


class MustWait(msgspec.Struct, frozen=True):
    reason: str


class Lower(msgspec.Struct, frozen=True):
    """Give these pods this cost, and then the Deployment so many replicas."""

    pods: tuple[SeenPod, ...]
    cost: int
    replicas: int


Removal = IsGone | MustWait | Lower


def plan_removal(seen: SeenDeployment, name: str, pending_seconds: float) -> Removal:
    """How to end the pod of this name.

    Said again after a crash, it must not cost a second pod. A pod with the mark may have had its
    replica taken away already, as long as there are more pods than replicas. When there are not,
    and it is still here, its replica was not taken away."""
    alive = [pod for pod in seen.pods if not pod.ending]
    pod = next((one for one in alive if one.name == name), None)
    if pod is None:
        return IsGone()
    if not seen.is_observed:
        return MustWait("the last change of its replicas is not carried out yet")
    if pod.is_marked and len(alive) > seen.replicas:
        return MustWait("a pod is about to be removed, which may be this one")
    if len(alive) < seen.replicas and not seen.is_refused:
        return MustWait("pods are being made, and one fewer would be made instead")
    others = [one for one in alive if one is not pod]
    if any(one.replica_set != pod.replica_set for one in others):
        return MustWait("the Deployment is being rolled out, so which pod goes cannot be chosen")
    late = [one for one in others if (one.pending_seconds or 0) >= pending_seconds]
    first = next((one for one in others if not one.ready and one not in late), None)
    if first is not None:
        what = "not ready" if first.pending_seconds is None else "pending"
        return MustWait(f"pod {first.name} is {what}, and Kubernetes would remove it first")
    least = min((one.cost for one in others if one not in late), default=0)
    cost = pod.cost if pod.is_marked and pod.cost < least else min(MARK, least - 1)
    replicas = min(seen.replicas, len(alive)) - 1 - len(late)
    return Lower((pod, *late), max(cost, _LEAST_COST), max(0, replicas))
