"""The guide's files for Kubernetes, AWS and receivers of webhooks: read by their own clients, and
enough for what the providers do."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml
from lightkube import codecs
from lightkube.models.rbac_v1 import PolicyRule
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.autoscaling_v2 import HorizontalPodAutoscaler
from lightkube.resources.rbac_authorization_v1 import Role
from moto import settings as moto_settings

from taskforge.control.providers.aws import AwsProvider
from taskforge.control.providers.factory import FleetOwner, make_provider
from taskforge.control.providers.kubernetes import KubernetesProvider
from taskforge.control.providers.provider import Departing, Fleet, ProviderFailed
from taskforge.domain.addresses import parse_networks
from taskforge.domain.scaling_provider import (
    AwsDeclaration,
    KubernetesDeclaration,
    WebhookDeclaration,
)
from tests.support.fake_aws import GROUP, REGION, FakeAws, fake_aws, group_of, use_credentials
from tests.support.fake_kubernetes import NAME, NAMESPACE, fake_kubernetes, write_kubeconfig
from tests.support.front import Answer, served

DOCS = Path(__file__).parents[2] / "docs"


def kinds_in(file: str) -> dict[str, Any]:
    text = (DOCS / "scaling" / file).read_text(encoding="utf-8")
    return {type(one).__name__: one for one in codecs.load_all_yaml(text)}


async def test_the_role_for_kubernetes_suffices_and_has_nothing_to_spare(tmp_path: Path) -> None:
    kinds = kinds_in("kubernetes.yml")
    role, deployment = kinds["Role"], kinds["Deployment"]
    assert isinstance(role, Role)
    assert isinstance(deployment, Deployment)
    assert (deployment.metadata.name, role.metadata.namespace) == (NAME, NAMESPACE)
    rules: list[PolicyRule] = role.rules
    rights = {(verb, name) for rule in rules for verb in rule.verbs for name in rule.resources}
    for missing in [None, *sorted(rights)]:
        with fake_kubernetes(2) as (cluster, front):
            cluster.allowed = rights - {missing}
            file = write_kubeconfig(tmp_path / "kubeconfig", front.url)
            provider = KubernetesProvider(KubernetesDeclaration(deployment=NAME, kubeconfig=file))
            try:
                await provider.scale_up(1, above=2)
                worker = Departing(worker_id=UUID(int=1), name="w", host=min(cluster.pods))
                await provider.stop(worker)
            except ProviderFailed:
                assert missing is not None
            else:
                assert missing is None, f"{missing} is not needed"
                assert cluster.removed == [worker.host]
            finally:
                await provider.close()


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAws]:
    with fake_aws() as aws, group_of(aws, 2) as account:
        yield account


@pytest.mark.parametrize("missing", [None, "autoscaling:SetInstanceProtection"])
async def test_the_policy_for_aws_suffices(
    account: FakeAws, monkeypatch: pytest.MonkeyPatch, missing: str | None
) -> None:
    policy = json.loads((DOCS / "scaling" / "aws-policy.json").read_text(encoding="utf-8"))
    for statement in policy["Statement"]:
        statement["Resource"] = "*"  # moto knows no others here
        statement["Action"] = [one for one in statement["Action"] if one != missing]
    users = account.client("iam")
    users.create_user(UserName="taskforge")
    users.put_user_policy(
        UserName="taskforge", PolicyName="scaling", PolicyDocument=json.dumps(policy)
    )
    key = users.create_access_key(UserName="taskforge")["AccessKey"]
    account.client("autoscaling").update_auto_scaling_group(
        AutoScalingGroupName=GROUP, NewInstancesProtectedFromScaleIn=True
    )
    instance = account.instances()[0]
    use_credentials(monkeypatch, key["AccessKeyId"], key["SecretAccessKey"])
    monkeypatch.setattr(moto_settings, "INITIAL_NO_AUTH_ACTION_COUNT", 0)
    provider = AwsProvider(
        AwsDeclaration(group=GROUP, region=REGION, endpoint_url=account.front.url)
    )
    if missing is None:
        await provider.scale_up(1, above=2)
        worker = Departing(worker_id=UUID(int=1), name="w", host=instance)
        await provider.stop(worker)
        assert await provider.current() == Fleet(2, 2)
    else:
        with pytest.raises(ProviderFailed, match=r"may not SetInstanceProtection .*AccessDenied"):
            await provider.scale_up(1, above=2)
    await provider.close()


async def test_the_receiver_of_the_guide_keeps_what_it_promises() -> None:
    guide = (DOCS / "guides" / "scaling-providers.md").read_text(encoding="utf-8")
    code = re.search(r"```python file=receiver.py\n(.*?)```", guide, re.DOTALL)
    assert code is not None
    receiver: dict[str, Any] = {}
    exec(code[1], receiver)
    with served(lambda asked: Answer(*receiver["answer"](asked.headers, asked.body), {})) as front:
        declaration = WebhookDeclaration(url=front.url, secret=receiver["SECRET"])
        owner = FleetOwner(policy=UUID(int=7), queue="mail", project="default")
        provider = make_provider(declaration, owner, opened=parse_networks("", "127.0.0.0/8"))
        for _ in range(2):
            await provider.scale_up(3, above=0)
            await provider.stop(Departing(worker_id=UUID(int=1), name="w"))
        assert await provider.current() == Fleet(3)
        receiver["SECRET"] = "whsec_" + "A" * 32
        with pytest.raises(ProviderFailed, match="answered 401"):
            await provider.current()
        await provider.close()


def test_external_metrics_name_what_servers_tell() -> None:
    kinds = kinds_in("external-metrics.yml")
    [rule] = yaml.safe_load(kinds["ConfigMap"].data["config.yaml"])["externalRules"]
    assert rule["seriesQuery"].startswith("taskforge_jobs{status=")
    scaler = kinds["HorizontalPodAutoscaler"]
    assert isinstance(scaler, HorizontalPodAutoscaler)
    assert scaler.spec.metrics[0].external.metric.name == rule["name"]["as"]
    from taskforge.operations import scraping

    assert '"taskforge_jobs"' in Path(scraping.__file__).read_text(encoding="utf-8")
