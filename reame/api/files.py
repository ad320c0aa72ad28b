"""`/v1/files`: what batches are made of and what comes of them. Each key sees its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import trio
from attrs import frozen
from quart import g, request
from quart_trio.wrappers import TrioResponse as Response

from reame.api.cors import refuse_foreign_page
from reame.api.routes import json_response
from reame.api.schema_batches import page
from reame.api.upload import receive
from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from quart_trio import QuartTrio

    from reame.api.exchange import Request
    from reame.api.upload import Upload
    from reame.config import Config
    from reame.runtime.batches import Batches

MOST_LISTED = 10_000
CHUNK = 1 << 16


@frozen
class Files:
    """The handlers; what they keep is the shelf's."""

    config: Config
    batches: Batches

    def add_to(self, app: QuartTrio) -> None:
        app.add_url_rule("/files", view_func=self.upload, methods=["POST"])
        app.add_url_rule("/files", view_func=self.files, methods=["GET"])
        app.add_url_rule("/files/<name>", view_func=self.file, methods=["GET"])
        app.add_url_rule("/files/<name>", view_func=self.delete, methods=["DELETE"])
        app.add_url_rule("/files/<name>/content", view_func=self.content, methods=["GET"])

    async def upload(self) -> Response:
        refuse_foreign_page(self.config.server.cors_origins)
        shelf, key = self.batches.shelf, g.key
        path = await self.batches.on_disk(shelf.begin, key)
        upload = await receive(request, path, most=self.config.batch.file_mb << 20)
        try:
            told = await self.batches.on_disk(self._add, key, upload)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return json_response(told)

    async def files(self) -> Response:
        listed = await self.batches.on_disk(self.batches.shelf.files, g.key)
        purpose = request.args.get("purpose")
        return json_response(page([f for f in listed if purpose in (None, f["purpose"])], request.args, MOST_LISTED))

    async def file(self, name: str) -> Response:
        return json_response(await self.batches.on_disk(self.batches.shelf.file, g.key, name))

    async def delete(self, name: str) -> Response:
        await self.batches.on_disk(self.batches.shelf.delete_file, g.key, name)
        return json_response({"id": name, "object": "file", "deleted": True})

    async def content(self, name: str) -> Response:
        told = await self.batches.on_disk(self.batches.shelf.file, g.key, name)
        try:
            file = await trio.open_file(self.batches.shelf.data_path(g.key, name), "rb")
        except FileNotFoundError:  # deleted just now
            gone = "there is no such file of this key"
            raise RequestError(gone, status=404, param="id", code="file_not_found") from None
        opened = await cast("Request", request).held.enter_async_context(file)
        headers = {"Content-Length": str(told["bytes"]), "X-Content-Type-Options": "nosniff"}
        return Response(_chunks(opened), headers=headers, content_type="application/octet-stream")

    def _add(self, key: str, upload: Upload) -> dict[str, object]:
        if upload.fields.get("purpose") != "batch":
            raise RequestError('purpose must be "batch".', param="purpose")
        self.batches.shelf.check_room(key, 0)
        seconds = upload.fields.get("expires_after[seconds]", "")
        keep_s = float(seconds) if seconds.isdecimal() and len(seconds) < 12 else None
        return self.batches.shelf.add(upload.path, filename=upload.filename, purpose="batch", keep_s=keep_s)


async def _chunks(file: Any) -> AsyncIterator[bytes]:
    while chunk := await file.read(CHUNK):
        yield chunk
