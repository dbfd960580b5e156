"""Makes the provider of a policy from its declaration."""

import asyncio
import contextlib
import importlib
from collections.abc import Callable, Sequence
from uuid import UUID

import msgspec

from taskforge.control.providers.provider import Provider, ProviderFailed
from taskforge.domain.addresses import Network
from taskforge.domain.scaling_provider import (
    AwsDeclaration,
    Declaration,
    KubernetesDeclaration,
    LocalDeclaration,
    WebhookDeclaration,
)


class FleetOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The policy that a provider works for. Its workers say by the setting `scaled_by`, or by the
    capability of that name, whose they are: the id of the policy, or the name of its queue."""

    policy: UUID
    queue: str
    project: str  # as the setting `project` names it


_MODULES: dict[type[Declaration], str] = {
    KubernetesDeclaration: "taskforge.control.providers.kubernetes",
    AwsDeclaration: "taskforge.control.providers.aws",
    WebhookDeclaration: "taskforge.control.providers.webhook",
}
MakeLocal = Callable[[LocalDeclaration, FleetOwner], Provider]


async def load_provider(declaration: Declaration) -> None:
    """Import what the provider needs, in a thread: it takes boto3 some tenths of a second. What is
    missing is told when the provider is made."""
    module = _MODULES.get(type(declaration))
    if module is not None:
        with contextlib.suppress(ModuleNotFoundError):
            await asyncio.to_thread(importlib.import_module, module)


def make_provider(
    declaration: Declaration,
    owner: FleetOwner,
    make_local: MakeLocal | None = None,
    *,
    opened: Sequence[Network] = (),
) -> Provider:
    """`make_local` starts processes, which is for the layer above to know how to do. `opened`:
    private networks that webhooks may reach."""
    kind = str(declaration.__struct_config__.tag)
    try:
        match declaration:
            case LocalDeclaration() if make_local is not None:
                return make_local(declaration, owner)
            case KubernetesDeclaration():
                from taskforge.control.providers.kubernetes import KubernetesProvider

                return KubernetesProvider(declaration)
            case AwsDeclaration():
                from taskforge.control.providers.aws import AwsProvider

                return AwsProvider(declaration)
            case WebhookDeclaration():
                return _make_webhook(declaration, owner, opened)
            case _:
                raise ProviderFailed(f"a provider of kind {kind} cannot be made by this process")
    except ModuleNotFoundError as error:
        extra = "client" if isinstance(declaration, WebhookDeclaration) else kind
        raise ProviderFailed(
            f"{error.name} is not installed, and providers of kind {kind} need it; run "
            f"`pip install 'taskforge-platform[{extra}]'`"
        ) from None


def _make_webhook(
    declaration: WebhookDeclaration, owner: FleetOwner, opened: Sequence[Network]
) -> Provider:
    from taskforge.client.outgoing import OutgoingDoor
    from taskforge.control.providers.webhook import WebhookProvider

    door = OutgoingDoor(opened, seconds=declaration.timeout_seconds, most_at_once=4)
    return WebhookProvider(
        declaration, door, project=owner.project, queue=owner.queue, policy=owner.policy
    )
