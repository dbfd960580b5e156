from datetime import UTC, datetime, timedelta

import pytest

from taskforge.domain.errors import Invalid
from taskforge.domain.signature import new_secret, read_secret, sign, verify

NOW = datetime.fromtimestamp(1_614_265_330, UTC)
# the example of the specification of Standard Webhooks
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_signature_is_that_of_the_specification() -> None:
    headers = sign([read_secret("secret", SECRET)], "msg_p5jXN8AQM9LWM0D4loKWxJek", NOW, BODY)
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": SIGNATURE,
    }
    assert verify(SECRET, headers, BODY, NOW)


def test_both_secrets_of_a_rotation_verify_and_no_other() -> None:
    old, new, other = new_secret(), new_secret(), new_secret()
    headers = sign([read_secret("secret", one) for one in (new, old)], "id", NOW, BODY)
    assert verify(old, headers, BODY, NOW)
    assert verify(new, headers, BODY, NOW)
    assert not verify(other, headers, BODY, NOW)


def test_what_was_changed_or_is_old_does_not_verify() -> None:
    secret = new_secret()
    headers = sign([read_secret("secret", secret)], "id", NOW, BODY)
    assert not verify(secret, headers, BODY + b" ", NOW)
    assert not verify(secret, headers | {"webhook-id": "other"}, BODY, NOW)
    assert not verify(secret, headers | {"webhook-timestamp": "1614265331"}, BODY, NOW)
    assert not verify(secret, {}, BODY, NOW)
    assert not verify(secret, headers, BODY, NOW + timedelta(seconds=301))
    titled = {name.title(): value for name, value in headers.items()}
    assert verify(secret, titled, BODY, NOW + timedelta(seconds=299))


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "whsec_AAAA", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_*"]
)
def test_what_is_no_secret_is_refused(secret: str) -> None:
    with pytest.raises(Invalid, match="random bytes in base64"):
        read_secret("secret", secret)
