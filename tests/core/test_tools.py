"""How a model is told of tools, and how its calls are read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reame.core.chat import ChatTemplate
from reame.core.request import Chat
from reame.core.tool_calls import Arguments, CallBegins, CallReader, Said
from reame.core.tools import OPEN, in_general_words, written

if TYPE_CHECKING:
    from reame.core.tool_calls import Part

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
CALL = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
TEXT = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'
HISTORY: tuple[dict[str, Any], ...] = (
    {"role": "user", "content": "Rome?"},
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL, CALL]},
    {"role": "tool", "content": "sunny", "tool_call_id": "1"},
    {"role": "tool", "content": "warm", "tool_call_id": "1"},
)


def read(*pieces: str) -> list[Part]:
    reader = CallReader()
    parts = [part for piece in pieces for part in reader.take(piece)]
    return joined([*parts, *reader.end()])


def joined(parts: list[Part]) -> list[Part]:
    """Neighbours that go on are one."""
    told: list[Part] = []
    for part in parts:
        match told[-1] if told else None, part:
            case Said(before), Said(text):
                told[-1] = Said(before + text)
            case Arguments(index, before), Arguments(_, text):
                told[-1] = Arguments(index, before + text)
            case _:
                told.append(part)
    return told


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("Hello, a < b.", [Said("Hello, a < b.")]),
        ("So: <tool_ca", [Said("So: <tool_ca")]),
        (" \n", [Said(" \n")]),
        (TEXT, [CallBegins(0, "weather"), Arguments(0, '{"city": "Rome"}')]),
        (f"I look.\n\n{TEXT}", [Said("I look."), CallBegins(0, "weather"), Arguments(0, '{"city": "Rome"}')]),
        (
            f"{TEXT}\n{TEXT}",
            [CallBegins(0, "weather"), Arguments(0, '{"city": "Rome"}'), CallBegins(1, "weather"),
             Arguments(1, '{"city": "Rome"}')],
        ),
        (TEXT[:-15], [CallBegins(0, "weather"), Arguments(0, '{"city": "Rome"')]),
        (TEXT[:20], []),
        (
            TEXT.replace("Rome", '}\\"{<tool_call>'),
            [CallBegins(0, "weather"), Arguments(0, '{"city": "}\\"{<tool_call>"}')],
        ),
    ],
)  # fmt: skip
def test_calls_are_read(text: str, parts: list[Part]) -> None:
    assert read(text) == parts
    assert read(*text) == parts


@pytest.mark.parametrize("said", ["", "I look."])
@pytest.mark.parametrize("size", range(1, 11))
def test_a_mark_that_was_cut_is_nothing_that_is_said(said: str, size: int) -> None:
    """A single "<" may begin anything, where no call has to come."""
    held = ("\n" if said else "") + TEXT[:size]
    for must_call, was_cut, left in ((True, True, ""), (False, True, held if size == 1 else ""), (False, False, held)):
        reader = CallReader(must_call)
        assert joined([*reader.take(said + held), *reader.end(was_cut=was_cut)]) == [Said(said + left)] * bool(
            said + left
        )


TEXTS = st.text(max_size=12)
SCALARS = st.none() | st.integers() | TEXTS
ANY = st.recursive(
    SCALARS, lambda inner: st.dictionaries(TEXTS, inner, max_size=3) | st.lists(inner, max_size=3), max_leaves=4
)


@settings(max_examples=60)
@given(st.lists(st.dictionaries(TEXTS, ANY, max_size=2), max_size=3), TEXTS, st.data())
def test_any_arguments_in_any_pieces(arguments: list[dict[str, Any]], said: str, data: st.DataObject) -> None:
    calls = [{"function": {"name": f"f{n}", "arguments": each}} for n, each in enumerate(arguments)]
    text = "\n".join([said.replace("<", "").rstrip(), *map(written, calls)])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    parts = read(*(text[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)))
    assert parts == read(text)
    assert [json.loads(part.text) for part in parts if isinstance(part, Arguments)] == arguments
    assert [part.name for part in parts if isinstance(part, CallBegins)] == [f"f{n}" for n in range(len(calls))]


def test_a_conversation_in_general_words() -> None:
    told = in_general_words(HISTORY, (TOOL,))
    assert [message["role"] for message in told] == ["system", "user", "assistant", "user"]
    assert json.dumps(TOOL) in told[0]["content"]
    assert told[2]["content"] == f"I look.\n{TEXT}\n{TEXT}"
    assert told[3]["content"] == ("<tool_response>\nsunny\n</tool_response>\n<tool_response>\nwarm\n</tool_response>")
    assert not any("tool_calls" in message for message in told)


def test_the_tools_come_behind_the_system_text_that_there_is() -> None:
    told = in_general_words(({"role": "system", "content": "Be brief."}, HISTORY[0]), (TOOL,))
    assert told[0]["content"].startswith("Be brief.\n\nYou may call functions")
    assert len(told) == 2
    assert in_general_words(HISTORY[:1], ()) == list(HISTORY[:1])


HERMES = "{{ tools | tojson }}{% for m in messages %}{{ m.role }}{{ m.tool_calls }}<tool_call>{% endfor %}"
TAKES_OTHERS = "{% set tools = xml_tools or none %}" + HERMES  # as SmolLM3's does
FORGETS = "{{ tools | tojson }}{% for m in messages %}{{ m.role }}{{ m.name }}<tool_call>{% endfor %}"
OTHER = "{% for m in messages %}[{{ m.role }}: {{ m.content }}]{% endfor %}"


def test_a_template_that_knows_our_tools_gets_them_and_others_get_words() -> None:
    chat = Chat(messages=HISTORY, tools=(TOOL,))
    assert ChatTemplate(HERMES).render(chat).startswith('[{"type": "function"')
    shown = ChatTemplate(OTHER).render(chat)
    assert shown.startswith("[system: You may call functions")
    assert shown.endswith("</tool_response>]")
    assert "[tool:" not in shown


@pytest.mark.parametrize("other", [TAKES_OTHERS, FORGETS])
def test_a_template_is_believed_that_shows_tools_and_calls(other: str) -> None:
    shown = ChatTemplate(other).render(Chat(messages=HISTORY, tools=(TOOL,)))
    assert "system" in shown
    assert "tool<tool_call>" not in shown


@pytest.mark.parametrize("form", ["<function=weather>", "<arg_key>city</arg_key>"])
def test_templates_that_write_calls_in_another_form_get_words(form: str) -> None:
    other = f"{OTHER}{{% if tools %}}<tool_call>\n{form}{{% endif %}}"
    assert ChatTemplate(other).render(Chat(messages=HISTORY, tools=(TOOL,))).startswith("[system: You may call")


def test_a_history_of_calls_is_told_without_tools_as_with_them() -> None:
    """Else the last turn, which may call none, would share nothing with the turns before."""
    shown = ChatTemplate(HERMES).render(Chat(messages=HISTORY))
    assert shown.startswith("nulluser<tool_call>assistant[{")
    assert shown.endswith("tool<tool_call>tool<tool_call>")
    assert "[assistant: I look.\n<tool_call>" in ChatTemplate(OTHER).render(Chat(messages=HISTORY))


@given(st.data())
def test_of_text_or_calls_a_mark_within_a_text_is_none(data: st.DataObject) -> None:
    for text, is_said in ((f'{{"a":"{OPEN} x {OPEN}"}}', True), (written(CALL), False)):
        reader, parts, left = CallReader(either=True), [], text
        while left:
            size = data.draw(st.integers(1, len(left)))
            parts += reader.take(left[:size])
            left = left[size:]
        parts += reader.end(was_cut=data.draw(st.booleans()))
        said = "".join(part.text for part in parts if isinstance(part, Said))
        assert said == (text if is_said else "")
        assert any(isinstance(part, CallBegins) for part in parts) is not is_said
