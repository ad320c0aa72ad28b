"""`POST /v1/embeddings`, answered by the embeddings model of the configuration."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

import trio
from attrs import frozen
from quart import g
from quart_trio.wrappers import TrioResponse as Response

from reame.api.chunks import dumps
from reame.api.schema_embeddings import EmbeddingsWanted, read_embeddings
from reame.errors import RequestError

if TYPE_CHECKING:
    from quart_trio import QuartTrio

    from reame.api.routes import Routes
    from reame.runtime.embeddings import Embedded, Embeddings


@frozen
class EmbeddingRoutes:
    """The handler of the endpoint."""

    routes: Routes

    def add_to(self, app: QuartTrio) -> None:
        app.add_url_rule("/embeddings", view_func=self.embeddings, methods=["POST"])

    async def embeddings(self) -> Response:
        wanted = await self.routes.wanted(read_embeddings)
        model = self._model(wanted)
        embedded = await model.embed(wanted.inputs, key=g.key, namespace=g.key)
        body = await trio.to_thread.run_sync(_body, embedded, model.id, wanted, limiter=self.routes.parsing)
        return Response(body, content_type="application/json")

    def _model(self, wanted: EmbeddingsWanted) -> Embeddings:
        """Raises RequestError: there is none, it is another one, or it is not loaded yet."""
        if not self.routes.config.embeddings.model:
            message = "This server has no embeddings model: its operator can set embeddings.model."
            raise RequestError(message, status=404, code="no_embeddings_model")
        self.routes.served()
        model = self.routes.intake.embeddings
        assert model is not None
        if wanted.of not in ("", model.id, self.routes.intake.model_id):  # some clients have one name for all they ask
            message = f"This server does not have that embeddings model. It has {model.id!r}."
            raise RequestError(message, status=404, param="model", code="model_not_found")
        if wanted.dimensions not in (None, model.size):
            message = f"dimensions of {model.id} are always {model.size}: leave it out."
            raise RequestError(message, param="dimensions")
        return model


def _body(embedded: Embedded, model_id: str, wanted: EmbeddingsWanted) -> str:
    """JSON, for an I/O thread: thousands of vectors take a while. Base64 is of little-endian float32."""
    vectors: list[Any] = [
        b64encode(vector.astype("<f4").tobytes()).decode() if wanted.base64 else vector.tolist()
        for vector in embedded.vectors
    ]
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    usage = {"prompt_tokens": embedded.num_tokens, "total_tokens": embedded.num_tokens}
    return dumps({"object": "list", "data": data, "model": model_id, "usage": usage})
