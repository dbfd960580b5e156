"""Moto's server, which answers as AWS does, behind a front that can throttle, hang, and tells what
was asked."""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.support.front import Answer, Asked, Front, served

REGION = "eu-central-1"
GROUP = "workers"
_THROTTLED = b"""<ErrorResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/"><Error>
<Type>Sender</Type><Code>Throttling</Code><Message>Rate exceeded</Message></Error>
<RequestId>1</RequestId></ErrorResponse>"""


class FakeAws:
    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.throttles = 0  # so many requests are refused
        self.front: Front

    def answer(self, asked: Asked) -> Answer:
        if self.throttles > 0:
            self.throttles -= 1
            return Answer(400, _THROTTLED, {"content-type": "text/xml"})
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        try:
            headers = {n: v for n, v in asked.headers.items() if n != "connection"}
            connection.request(asked.method, asked.path, asked.body, headers)
            response = connection.getresponse()
            return Answer(response.status, response.read(), {"content-type": "text/xml"})
        finally:
            connection.close()

    def client(self, service: str) -> Any:
        """Of whoever owns the account."""
        return boto3.client(
            service,
            endpoint_url=f"http://{self.host}:{self.port}",
            region_name=REGION,
            aws_access_key_id="owner",
            aws_secret_access_key="secret",
        )

    def group(self) -> dict[str, Any]:
        found = self.client("autoscaling").describe_auto_scaling_groups(
            AutoScalingGroupNames=[GROUP]
        )
        group: dict[str, Any] = found["AutoScalingGroups"][0]
        return group

    def instances(self) -> list[str]:
        return [one["InstanceId"] for one in self.group()["Instances"]]

    def actions(self) -> list[str]:
        bodies = [parse_qs(one.body.decode()) for one in self.front.asked]
        return [one["Action"][0] for one in bodies]


@contextmanager
def fake_aws() -> Iterator[FakeAws]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield FakeAws(*server.get_host_and_port())
    finally:
        server.stop()


@contextmanager
def group_of(aws: FakeAws, desired: int, least: int = 0, most: int = 5) -> Iterator[FakeAws]:
    """A new group on an account that is made anew, and a front before it."""
    connection = http.client.HTTPConnection(aws.host, aws.port, timeout=10)
    connection.request("POST", "/moto-api/reset")
    connection.getresponse().read()
    connection.close()
    client = aws.client("autoscaling")
    client.create_launch_configuration(
        LaunchConfigurationName="worker", ImageId="ami-12c6146b", InstanceType="t3.micro"
    )
    client.create_auto_scaling_group(
        AutoScalingGroupName=GROUP,
        LaunchConfigurationName="worker",
        MinSize=least,
        MaxSize=most,
        DesiredCapacity=desired,
        AvailabilityZones=[f"{REGION}a"],
    )
    aws.throttles = 0
    with served(aws.answer) as front:
        aws.front = front
        yield aws


def use_credentials(
    monkeypatch: pytest.MonkeyPatch, key: str = "owner", secret: str = "secret"
) -> None:
    """And nothing else of the machine's own."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    for name, value in (("AWS_ACCESS_KEY_ID", key), ("AWS_SECRET_ACCESS_KEY", secret)):
        if value:
            monkeypatch.setenv(name, value)
        else:
            monkeypatch.delenv(name, raising=False)
