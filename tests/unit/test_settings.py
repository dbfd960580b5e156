"""Settings from a file, the environment and flags: which wins, what is refused, and how that is
told."""

from pathlib import Path

import pytest

from taskforge.domain.errors import Invalid
from taskforge.domain.scaling_provider import LocalDeclaration
from taskforge.settings import Settings
from taskforge.wiring import sqlite_path


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "some.toml"
    file.write_text("pool_size = 1\nlease_seconds = 20\nport = 81\n")
    environment = {"TASKFORGE_POOL_SIZE": "7", "TASKFORGE_PORT": "82", "OTHER_PORT": "83"}
    settings = Settings.load({"port": 84, "host": None}, file=file, environment=environment)
    assert (settings.pool_size, settings.lease_seconds, settings.port, settings.host) == (
        7,
        20,
        84,
        "127.0.0.1",
    )


@pytest.mark.parametrize(
    ("text", "environment", "flags", "told"),
    [
        ("port = 70000", {}, {}, "port in FILE: is 70,000; use a whole number from 0 to 65,535"),
        ("prot = 1", {}, {}, "prot in FILE: is not a known setting; did you mean 'port'?"),
        (
            "",
            {"TASKFORGE_PORT": "much"},
            {},
            "TASKFORGE_PORT: is a str, not a whole number; use a whole number from 0 to 65,535",
        ),
        (
            "",
            {"TASKFORGE_PROT": "1"},
            {},
            "TASKFORGE_PROT: is not a known setting; did you mean 'port'?",
        ),
        (
            "",
            {"TASKFORGE_PORT": "1"},
            {"port": -1},
            "port: is -1; use a whole number from 0 to 65,535",
        ),
    ],
)
def test_an_error_says_where_to_mend_it(
    tmp_path: Path, text: str, environment: dict[str, str], flags: dict[str, object], told: str
) -> None:
    file = tmp_path / "some.toml"
    file.write_text(text)
    with pytest.raises(Invalid) as caught:
        Settings.load(flags, file=file, environment=environment)
    assert str(caught.value) == told.replace("FILE", str(file))


def test_what_kubernetes_tells_the_pods_of_a_service_named_taskforge_is_no_setting() -> None:
    address = "tcp://10.0.0.1:8080"
    links = {
        "TASKFORGE_SERVICE_HOST": "10.0.0.1",
        "TASKFORGE_SERVICE_PORT": "8080",
        "TASKFORGE_SERVICE_PORT_HTTP": "8080",
        "TASKFORGE_PORT": address,
        "TASKFORGE_PORT_8080_TCP": address,
        "TASKFORGE_PORT_8080_TCP_PROTO": "tcp",
        "TASKFORGE_PORT_8080_TCP_PORT": "8080",
        "TASKFORGE_PORT_8080_TCP_ADDR": "10.0.0.1",
    }
    assert Settings.load(environment=links) == Settings()
    with pytest.raises(Invalid, match="TASKFORGE_SERVICE_HOSTS: is not a known setting"):
        Settings.load(environment=links | {"TASKFORGE_SERVICE_HOSTS": "10.0.0.1"})


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("sqlite:///jobs#1.db", "sqlite:///jobs%231.db"),
        ("sqlite:///jobs?1.db", "sqlite:///jobs%3F1.db"),
        ("sqlite:////var/a?b=c.db", "sqlite:////var/a%3Fb=c.db"),
    ],
)
def test_a_mark_that_would_cut_a_files_name_is_refused(url: str, wanted: str) -> None:
    with pytest.raises(Invalid, match="if the file has it in its name") as caught:
        Settings.load({"url": url}, environment={})
    assert caught.value.expected.endswith(wanted)
    with pytest.raises(Invalid):
        sqlite_path(url)  # also of settings that nobody has checked
    assert sqlite_path(Settings.load({"url": wanted}, environment={}).url) == Path(
        url.removeprefix("sqlite:///")
    )


def test_a_project_may_stand_behind_a_files_name() -> None:
    assert sqlite_path(
        Settings.load({"url": "sqlite:///jobs.db?project=mail"}, environment={}).url
    ) == Path("jobs.db")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"worker_heartbeat_timeout_seconds": 15}, "shorter than the lease"),
        ({"worker_heartbeat_timeout_seconds": 5}, "heard of every 5 s"),
        ({"worker_heartbeat_timeout_seconds": 0.5, "heartbeat_seconds": 1}, "heard of every 1 s"),
        ({"worker_heartbeat_timeout_seconds": 1.9, "lease_seconds": 6}, "heard of every 2 s"),
        ({"worker_heartbeat_timeout_seconds": 2.1, "lease_seconds": 6}, ""),
        ({"worker_heartbeat_timeout_seconds": 0, "lease_seconds": 0.5}, ""),
    ],
)
def test_silence_counts_between_a_heartbeat_and_a_lease(
    given: dict[str, float], wanted: str
) -> None:
    settings = Settings.load(given, environment={})
    if not wanted:
        assert settings.silence_seconds == (given["worker_heartbeat_timeout_seconds"] or None)
        return
    with pytest.raises(Invalid, match=wanted) as caught:
        _ = settings.silence_seconds
    assert caught.value.field == "worker_heartbeat_timeout_seconds"


SERVER = "https://jobs.example.com"


@pytest.mark.parametrize(
    ("file", "environment", "flags", "goes"),
    [
        ({"url": SERVER}, {"TASKFORGE_TOKEN": "tfk_x"}, {}, False),
        ({"url": SERVER}, {}, {"token": "tfk_x"}, False),
        ({"url": SERVER, "token": "tfk_x"}, {}, {}, True),
        ({}, {"TASKFORGE_URL": SERVER, "TASKFORGE_TOKEN": "tfk_x"}, {}, True),
        ({}, {"TASKFORGE_TOKEN": "tfk_x"}, {"url": SERVER}, True),
        ({"token": "tfk_x"}, {"TASKFORGE_URL": SERVER}, {}, True),
        ({"url": "sqlite:///a.db"}, {"TASKFORGE_TOKEN": "tfk_x"}, {}, True),
        ({"url": SERVER}, {}, {}, True),
    ],
)
def test_a_token_goes_to_no_address_from_a_weaker_place(
    tmp_path: Path,
    file: dict[str, str],
    environment: dict[str, str],
    flags: dict[str, str],
    goes: bool,
) -> None:
    """F12: a folder's taskforge.toml named the server, and got the token of who worked there."""
    path = tmp_path / "taskforge.toml"
    path.write_text("".join(f'{name} = "{value}"\n' for name, value in file.items()))
    if goes:
        Settings.load(flags, file=path, environment=environment)
        return
    with pytest.raises(Invalid, match="token: came from the") as refused:
        Settings.load(flags, file=path, environment=environment)
    assert "tfk_x" not in str(refused.value)


def test_providers_are_declared_with_who_may_use_them() -> None:
    near = '{"near": {"kind": "local", "app": "app:forge", "projects": ["default", "acme/mail"]}}'
    settings = Settings.load(environment={"TASKFORGE_SCALING_PROVIDERS": near})
    declared = settings.providers["near"]
    assert isinstance(declared, LocalDeclaration)
    assert declared.app == "app:forge"
    assert declared.admits("first", "default", is_first=True)
    assert not declared.admits("acme", "default", is_first=False)
    assert declared.admits("acme", "mail", is_first=False)
    for text, said in (
        ("[]", "is not a table"),
        ("{", "is not valid JSON"),
        ('{"near": {"kind": "local", "app": "a:b"}}', "near.projects: is missing"),
        ('{"near": {"kind": "locale"}}', "did you mean 'local'"),
        ('{"none": {"kind": "none"}}', "without being declared"),
    ):
        with pytest.raises(Invalid, match=said):
            Settings.load(environment={"TASKFORGE_SCALING_PROVIDERS": text})
