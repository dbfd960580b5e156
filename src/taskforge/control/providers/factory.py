"""Makes the provider of a policy from its declaration."""

from collections.abc import Callable
from uuid import UUID

import msgspec

from taskforge.control.providers.provider import Provider, ProviderFailed
from taskforge.domain.scaling_provider import Declaration, LocalDeclaration


class FleetOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The policy that a provider works for. Its workers say by the setting `scaled_by`, or by the
    capability of that name, whose they are: the id of the policy, or the name of its queue."""

    policy: UUID
    queue: str
    project: str  # as the setting `project` names it


MakeLocal = Callable[[LocalDeclaration, FleetOwner], Provider]


def make_provider(
    declaration: Declaration, owner: FleetOwner, make_local: MakeLocal | None = None
) -> Provider:
    """`make_local` starts processes, which is for the layer above to know how to do."""
    match declaration:
        case LocalDeclaration() if make_local is not None:
            return make_local(declaration, owner)
        case _:
            kind = declaration.__struct_config__.tag
            raise ProviderFailed(f"a provider of kind {kind} cannot be made by this process")
