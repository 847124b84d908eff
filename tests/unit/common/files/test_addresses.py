"""Addresses that are none, or at which there is nothing: one true sentence each."""

import pytest
from tests.conftest import Run
from tests.s3 import FaultyProxy

from dp_bundle.base.errors import ParameterError
from dp_bundle.files.places import located


@pytest.mark.parametrize(
    "address",
    [
        "https://[::1/x",
        "https://::1]/x",
        "https://[nonsense]/x",
        "https://host:99999/x",
        "https://host:port/x",
        "s3://[bucket/x",
        "file://[::1/x",
        "https://user:secret@[::1/x?key=secret#secret",
    ],
)
def test_what_is_no_address_is_said(address: str) -> None:
    """A malformed address is refused as an argument, without what may be secret in it."""
    with pytest.raises(ParameterError) as caught:
        located(address)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["x.tar", "x"])
def test_a_bucket_that_is_not_there_is_said(s3: FaultyProxy, command: Run, name: str) -> None:
    """A missing bucket is told from a missing object in one that is there."""
    done = command("dp-bundle", "verify", f"s3://no-such-bucket/{name}", "--any-signer")
    assert (done.returncode, "there is no such bucket or container" in done.stderr) == (1, True), done
    assert "No such file" not in done.stderr
    done = command("dp-bundle", "verify", f"s3://{s3.bucket}/{name}", "--any-signer")
    assert (done.returncode, "no such bucket" in done.stderr) == (3, False), done
    assert ("there is nothing at this address" if name == "x.tar" else "is missing at") in done.stderr
