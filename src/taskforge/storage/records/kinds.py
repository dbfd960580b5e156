"""Every kind of record of a store, by its name."""

from collections.abc import Sequence
from typing import Protocol

from taskforge.domain.addresses import Network
from taskforge.domain.audit_chain import SealKeys
from taskforge.ports.events import EventLog
from taskforge.storage.records.alerts import AlertRecords
from taskforge.storage.records.api_keys import ApiKeys
from taskforge.storage.records.audit_log import AuditLog
from taskforge.storage.records.audit_seals import AuditSeals
from taskforge.storage.records.ceiling_usage import CeilingUsage
from taskforge.storage.records.circuits import CircuitRecords
from taskforge.storage.records.cluster import ClusterRecords
from taskforge.storage.records.invitations import Invitations
from taskforge.storage.records.members import Members
from taskforge.storage.records.organizations import Organizations
from taskforge.storage.records.projects import Projects
from taskforge.storage.records.quota_usage import QuotaUsage
from taskforge.storage.records.scaling import ScalingRecords
from taskforge.storage.records.schedules import ScheduleRecords, ScheduleStore
from taskforge.storage.records.shared_secrets import SharedSecrets
from taskforge.storage.records.stored_bytes import StoredByteRecords
from taskforge.storage.records.throttles import Throttles
from taskforge.storage.records.tokens import Tokens
from taskforge.storage.records.users import Users
from taskforge.storage.records.webhooks import WebhookRecords


class RecordStore(ScheduleStore, EventLog, Protocol):
    """What all of them are kept in."""


class RecordKinds:
    def __init__(
        self,
        records: RecordStore,
        seal_keys: SealKeys | None = None,
        opened: Sequence[Network] = (),
    ) -> None:
        """`opened`: networks that webhooks may reach beside the public internet."""
        self.organizations = Organizations(records)
        self.projects = Projects(records)
        self.quota_usage = QuotaUsage(records)
        self.ceiling_usage = CeilingUsage(records)
        self.stored_bytes = StoredByteRecords(records)
        self.users = Users(records)
        self.members = Members(records)
        self.invitations = Invitations(records)
        self.api_keys = ApiKeys(records)
        self.tokens = Tokens(records)
        self.throttles = Throttles(records)
        self.shared_secrets = SharedSecrets(records)
        self.audit_log = AuditLog(records)
        self.audit_seals = AuditSeals(records, seal_keys)
        self.schedules = ScheduleRecords(records)
        self.cluster = ClusterRecords(records)
        self.alerts = AlertRecords(records)
        self.webhooks = WebhookRecords(records, opened)
        self.circuits = CircuitRecords(records)
        self.scaling = ScalingRecords(records)
