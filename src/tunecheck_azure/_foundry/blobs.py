"""Files into Azure Blob Storage, through azure-storage-blob."""

import hashlib
from typing import Any

from azure.storage.blob import ContainerClient, ContentSettings

from tunecheck_azure._foundry.service import AzureService
from tunecheck_upload import Artifact, UploadStep

BLOCK_BYTES = 8 << 20
"""Size of a block, and of the largest file that goes whole."""


class BlobFolder:
    """A container of the storage account, or a folder in it, that artifacts are put into.

    `container` is its address, with its signature if that is the credential. Else `credential` is the sign-in, or
    `account_name` and `account_key`.
    """

    def __init__(self, service: AzureService, container: str, credential: Any = None, prefix: str = "") -> None:  # noqa: ANN401 - duck-typed
        self._service = service
        self._prefix = prefix
        self._container = ContainerClient.from_container_url(
            container,
            credential=credential,
            transport=service.transport(),
            max_single_put_size=BLOCK_BYTES,
            max_block_size=BLOCK_BYTES,
            user_agent=service.user_agent,
        )

    def put(self, artifact: Artifact) -> None:
        """Upload a file. One of that name is replaced: an attempt before may have got through unanswered."""
        with artifact.path.open("rb") as file:
            md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).digest()
            file.seek(0)
            # The service itself computes the MD5 only of a file that comes whole.
            settings = ContentSettings(content_type=artifact.kind, content_md5=bytearray(md5))
            self._service.attempt(
                UploadStep(f"upload {artifact.name}"),
                lambda: self._container.upload_blob(
                    self._prefix + artifact.name, file, length=artifact.size, overwrite=True, content_settings=settings
                ),
            )

    def close(self) -> None:
        self._container.close()
