"""`/v1/batches`: order, look, list, cancel. Who carries them out is `reame.runtime.batches`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from attrs import frozen
from quart import g, request

from reame.api.cors import refuse_foreign_page
from reame.api.routes import json_response
from reame.api.schema_batches import page, read_batch
from reame.batch.order import ordered
from reame.batch.shelf import new_id
from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quart_trio import QuartTrio
    from quart_trio.wrappers import TrioResponse as Response

    from reame.runtime.batches import Batches

MOST_LISTED = 20


@frozen
class BatchRoutes:
    """The handlers. Each key sees its own batches."""

    batches: Batches
    origins: Sequence[str]

    def add_to(self, app: QuartTrio) -> None:
        app.add_url_rule("/batches", view_func=self.create, methods=["POST"])
        app.add_url_rule("/batches", view_func=self.list, methods=["GET"])
        app.add_url_rule("/batches/<name>", view_func=self.retrieve, methods=["GET"])
        app.add_url_rule("/batches/<name>/cancel", view_func=self.cancel, methods=["POST"])

    async def create(self) -> Response:
        if request.mimetype != "application/json":
            raise RequestError("Send the body as JSON, with the header `Content-Type: application/json`.", status=415)
        wanted = read_batch(await request.get_data(cache=False, as_text=False, parse_form_data=False))
        file = await self.batches.on_disk(self.batches.shelf.file, g.key, wanted.file)
        if file["purpose"] != "batch":
            raise RequestError('input_file_id must be of a file with purpose "batch".', param="input_file_id")
        told = ordered(
            new_id("batch"),
            model=self.batches.model_id,
            file=wanted.file,
            endpoint=wanted.endpoint,
            window=wanted.window,
            seconds=wanted.seconds,
            metadata=wanted.metadata,
            now=time.time(),
        )
        await self.batches.create(g.key, told)
        return json_response(told)

    async def list(self) -> Response:
        listed = await self.batches.listed(g.key)
        return json_response(page(listed, request.args, MOST_LISTED))

    async def retrieve(self, name: str) -> Response:
        return json_response(await self.batches.retrieve(g.key, name))

    async def cancel(self, name: str) -> Response:
        refuse_foreign_page(self.origins)
        return json_response(await self.batches.cancel(g.key, name))
