"""Blobs of `--results-dir az://…`, on Azurite; each write is whole, and only one of several creations succeeds."""

import io
import os
import secrets

import pytest
from tests.foundry_azurite import ACCOUNT, KEY

pytest.importorskip("azure.storage.blob")
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobServiceClient, StorageErrorCode

from tunecheck import ConfigurationError, RunError
from tunecheck.runs import open_mirror
from tunecheck_azure._mirror import folder as blobs
from tunecheck_azure._mirror.folder import BlobStore


def azurite_variables(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"http://127.0.0.1:{port}/{ACCOUNT}")


def container_address(port: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a new container, which the environment gives access to."""
    service = BlobServiceClient(f"http://127.0.0.1:{port}/{ACCOUNT}", credential=KEY)
    container = secrets.token_hex(8)
    service.create_container(container)
    azurite_variables(port, monkeypatch)
    return f"az://{container}/runs"


@pytest.fixture
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> BlobStore:
    return BlobStore(container_address(request.getfixturevalue("blob_port"), monkeypatch))


class ReadInPieces(io.BytesIO):
    """A file that notes how much of it came with one reading."""

    most = 0

    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(size)
        self.most = max(self.most, len(piece))
        return piece


def test_of_a_large_file_only_pieces_are_in_memory(store: BlobStore) -> None:
    content = os.urandom(12 << 20)
    file = ReadInPieces(content)
    store.put("run/eval_results.jsonl", file)
    stored = store.read("run/eval_results.jsonl")
    assert stored is not None
    assert stored.content == content
    assert 0 < file.most < len(content)


def test_what_is_there_is_not_created_again(store: BlobStore) -> None:
    assert store.create("lease/1", b"mine")
    assert not store.create("lease/1", b"yours")
    stored = store.read("lease/1")
    assert stored is not None
    assert stored.content == b"mine"


def test_a_creation_whose_reply_was_lost_succeeds_when_it_is_tried_again(store: BlobStore) -> None:
    assert store.create("lease/1", b"mine")
    assert store.create("lease/1", b"mine")


def test_what_is_not_there_is_not_read_and_may_be_deleted(store: BlobStore) -> None:
    assert store.read("nothing") is None
    store.delete("nothing")


def test_names_are_listed_in_order_with_the_version_that_is_read(store: BlobStore) -> None:
    for name in ("segments/2/b-1", "segments/10/a-1", "segments/2/b-0", "lease/2"):
        store.create(name, name.encode())
    listed = store.list("segments/2/")
    assert list(listed) == ["segments/2/b-0", "segments/2/b-1"]
    stored = store.read("segments/2/b-1")
    assert stored is not None
    assert stored.version == listed["segments/2/b-1"]
    assert list(store.list("")) == ["lease/2", "segments/10/a-1", "segments/2/b-0", "segments/2/b-1"]
    assert store.list("none/") == {}


@pytest.mark.parametrize("place", ["s3://bucket/runs", "gs://bucket", "abfss://c@a.dfs.core.windows.net/x"])
def test_other_storage_is_refused_as_untried(place: str) -> None:
    with pytest.raises(ConfigurationError, match="not supported"):
        open_mirror(place)


def test_a_token_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match="AZURE_STORAGE_") as caught:
        BlobStore("az://runs/x?sig=SECRET")
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("container", ["x", "Evals", "a--b", "-ab", "ab-", "my_evals", "a" * 64])
def test_an_address_with_a_wrong_container_says_what_containers_are_called(container: str) -> None:
    for address in (f"az://{container}/y", f"az://{container}"):
        with pytest.raises(ConfigurationError, match=f"^{address}: the container's name is wrong; use 3 to 63 lower"):
            open_mirror(address)


@pytest.mark.parametrize("address", ["az://", "az:///runs", "az://user:SECRET@runs/x", "az://runs?SECRET"])
def test_an_address_without_the_form_of_one_says_the_form(address: str) -> None:
    with pytest.raises(ConfigurationError, match="the storage address must be az://container/prefix") as caught:
        open_mirror(address)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("container", ["abc", "a-b-c", "a" * 63, "123"])
def test_names_of_containers_are_accepted(container: str, monkeypatch: pytest.MonkeyPatch) -> None:
    azurite_variables(1, monkeypatch)
    assert BlobStore(f"az://{container}/x/").place == f"az://{container}/x"


def test_storage_that_cannot_be_reached_is_told_without_its_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    azurite_variables(1, monkeypatch)
    monkeypatch.setattr(blobs, "RETRIES", 0)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2022-11-02&sig=SECRET")
    with pytest.raises(RunError, match="az://runs/x/lease/1: cannot be read: the storage cannot be reached") as caught:
        BlobStore("az://runs/x").read("lease/1")
    assert "SECRET" not in str(caught.value)


class RefusingContainer:
    """A container whose every listing is refused with this status and code."""

    def __init__(self, status: int, code: StorageErrorCode) -> None:
        self.error = HttpResponseError("refused")
        vars(self.error).update(status_code=status, error_code=code)

    def list_blobs(self, **_: object) -> list[object]:
        raise self.error


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (403, StorageErrorCode.AUTHORIZATION_FAILURE, r"AuthorizationFailure \(403\); check the credentials"),
        (404, StorageErrorCode.CONTAINER_NOT_FOUND, r"ContainerNotFound \(404\); create the container first"),
        (409, StorageErrorCode.CONTAINER_BEING_DELETED, r"ContainerBeingDeleted \(409\)$"),
    ],
)
def test_a_refused_call_has_the_storage_s_own_code_and_the_next_step(
    status: int, code: StorageErrorCode, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    azurite_variables(1, monkeypatch)
    store = BlobStore("az://runs/x")
    vars(store)["_container"] = RefusingContainer(status, code)
    with pytest.raises(RunError, match=f"az://runs/x/: cannot be listed: {reason}"):
        store.list("")


@pytest.mark.parametrize("endpoint", ["http://storage.example", "ftp://127.0.0.1.example", "storage.example"])
def test_a_signature_does_not_go_to_an_address_without_encryption(
    monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    azurite_variables(1, monkeypatch)
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", endpoint)
    with pytest.raises(ConfigurationError, match="the address in AZURE_STORAGE_ENDPOINT must begin with https://"):
        BlobStore("az://container/runs")
