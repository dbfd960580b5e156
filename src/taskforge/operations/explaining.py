"""Why a job is not running: what the store says, and what the scaling policy of its queue adds."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from taskforge.domain.explanation import Explanation
from taskforge.domain.job_parts import BRIEF
from taskforge.domain.scaling_reason import lacks_workers, scaling_reason
from taskforge.ports.engine import AnyEngine, is_store
from taskforge.storage.records.scaling import ScalingRecords


async def explain_job(engine: AnyEngine, projects: Sequence[int], job: UUID) -> Explanation:
    """A server in front of a store has said all of it."""
    explanation = await engine.explain(projects, job)
    if not is_store(engine) or not lacks_workers(explanation):
        return explanation
    found = await engine.get(projects, [job], BRIEF)
    scaling = await ScalingRecords(engine).find(found[0].queue_id) if found else None
    reason = None if scaling is None else scaling_reason(scaling, await engine.now())
    if reason is None:
        return explanation
    return msgspec.structs.replace(explanation, reasons=(*explanation.reasons, reason))
