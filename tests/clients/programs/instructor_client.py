"""instructor: answers as models, by JSON schema and by tools, whole and as they grow. Nothing is ever asked twice."""

from __future__ import annotations

from typing import Literal

import instructor
from _program import MODEL, QUESTION, URL, tell
from openai import OpenAI
from pydantic import BaseModel

settings = {"base_url": URL, "api_key": "none", "max_retries": 0}
messages = [{"role": "user", "content": QUESTION}]
asked = {"model": MODEL, "messages": messages, "temperature": 0, "max_tokens": 60}


class Place(BaseModel):
    """Somewhere, and how sure one is of it."""

    size: Literal["small", "large"]
    sure: bool
    visits: Literal[1, 2, 3]


for mode in (instructor.Mode.JSON_SCHEMA, instructor.Mode.TOOLS):
    client = instructor.from_openai(OpenAI(**settings), mode=mode)
    place = client.chat.completions.create(**asked, response_model=Place, max_retries=0)
    assert isinstance(place, Place), mode
    *_, last = client.chat.completions.create_partial(**asked, response_model=Place, max_retries=0)
    assert last.model_dump() == place.model_dump(), mode

plain = OpenAI(**settings).chat.completions.create(**asked | {"max_tokens": 12})
tell(text=plain.choices[0].message.content)
