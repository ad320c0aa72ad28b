"""Chat templates: real ones and the habits of families, against texts written by hand."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reame.core.chat import ChatTemplate
from reame.core.request import Chat
from reame.errors import ModelError, RequestError

TEMPLATES = Path(__file__).parent / "chat_templates"


def template(name: str) -> ChatTemplate:
    return ChatTemplate((TEMPLATES / f"{name}.jinja").read_text(), bos_text="<s>", eos_text="</s>")


def chat(*turns: tuple[str, str | None], continue_last: bool = False) -> Chat:
    return Chat(messages=tuple({"role": r, "content": c} for r, c in turns), continue_last=continue_last)


def test_smollm2_brings_its_own_system_text() -> None:
    assert template("smollm2").render(chat(("user", "Hi"))) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_qwen_with_a_system_text_and_history() -> None:
    rendered = template("qwen2.5-coder").render(
        chat(("system", "Be brief."), ("user", "2+2?"), ("assistant", "4"), ("user", "<b>& 'why'?"))
    )
    assert rendered == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n2+2?<|im_end|>\n"
        "<|im_start|>assistant\n4<|im_end|>\n<|im_start|>user\n<b>& 'why'?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_qwen_shows_tools_as_plain_json_and_arguments_as_an_object() -> None:
    tools = ({"type": "function", "function": {"name": "say", "description": "<é> & 'so'"}},)
    call = {"id": "1", "type": "function", "function": {"name": "say", "arguments": '{"text": "è"}'}}
    messages: tuple[dict[str, Any], ...] = (
        {"role": "user", "content": "Say è"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "done", "tool_call_id": "1"},
    )
    rendered = template("qwen2.5-coder").render(Chat(messages=messages, tools=tools))
    assert '{"type": "function", "function": {"name": "say", "description": "<é> & \'so\'"}}\n</tools>' in rendered
    assert '<|im_start|>assistant\n<tool_call>\n{"name": "say", "arguments": {"text": "è"}}\n</tool_call>' in rendered
    assert rendered.endswith(
        "<|im_start|>user\n<tool_response>\ndone\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


def test_arguments_that_are_no_json_stay_a_text() -> None:
    messages = ({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{oops"}}]},)
    assert '"arguments": "{oops"}' in template("qwen2.5-coder").render(Chat(messages=messages))


SHOWS_TOOLS = "{% if tools %}<tool_call>{{ tools | tojson }}{% endif %}"


@pytest.mark.parametrize(
    "arguments", ["{oops", "[1]", "5", '{"a": 1, "a": 2}', '{"a": NaN}', r'{"a": "\ud800"}', "[" * 100_000]
)
def test_a_template_that_looks_into_arguments_gets_none_for_a_text(arguments: str) -> None:
    looking = ChatTemplate(
        f"{SHOWS_TOOLS}{{% for m in messages %}}{{{{ m.content }}}}"
        "{% for call in m.tool_calls or [] %}<{{ call.function.name }}"
        "{% for key, value in call.function.arguments | items %} {{ key }}={{ value }}{% endfor %}>{% endfor %}"
        "{% endfor %}"
    )
    calls = [{"function": {"name": "f", "arguments": each}} for each in (arguments, '{"b": 2}')]
    messages: tuple[dict[str, Any], ...] = (
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "content": "no"},
    )
    assert looking.render(Chat(messages=messages)) == "Hi<f><f b=2>no"
    assert json.dumps(arguments) in template("qwen2.5-coder").render(Chat(messages=messages))


def test_a_history_of_calls_goes_on_without_tools_as_it_began_with_them() -> None:
    """Llama's own form has one call at a time, but two were made in general words."""
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
    calls = [{"id": str(n), "type": "function", "function": {"name": "f", "arguments": "{}"}} for n in range(2)]
    messages: tuple[dict[str, Any], ...] = (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "I look.", "tool_calls": calls},
        *({"role": "tool", "content": "no", "tool_call_id": str(n)} for n in range(2)),
    )
    turns = [template("llama3").render(Chat(messages=messages, tools=tools)) for tools in ((tool,), ())]
    told = [turn[turn.index("I look.") :] for turn in turns]
    assert told[0] == told[1]
    assert told[0].count("<tool_call>") == 2


def test_llama3_begins_with_bos_and_shows_the_date_that_is_given() -> None:
    llama = template("llama3")
    dated = llama.render(chat(("system", " Be kind. "), ("user", "Hi")), now=datetime(2031, 4, 5, tzinfo=UTC))
    assert dated == (
        "<s><|start_header_id|>system<|end_header_id|>\n\nToday Date: 05 Apr 2031\n\nBe kind.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    )
    assert "Today Date: 26 Jul 2024" in llama.render(chat(("user", "Hi")))


def test_gemma_refuses_a_system_role_and_gets_its_text_in_the_first_user_message() -> None:
    assert template("gemma").render(chat(("system", "Be brief."), ("user", "Hi"))) == (
        "<s><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\n"
    )


def test_a_system_text_that_a_template_would_leave_out_is_not_lost() -> None:
    rendered = template("mistral").render(chat(("system", "Be brief."), ("user", "Hi"), ("system", "Now in French.")))
    assert rendered == "<s>[INST] Be brief.\n\nHi [/INST][INST] Now in French. [/INST]"


@pytest.mark.parametrize("name", ["gemma", "mistral"])
def test_a_system_text_before_what_is_continued_is_not_lost(name: str) -> None:
    turns = (("user", "Hi"), ("system", "In French."), ("assistant", "Bon"))
    rendered = template(name).render(chat(*turns, continue_last=True))
    assert rendered.index("Hi") < rendered.index("In French.") < rendered.index("Bon")
    assert rendered.endswith("Bon")


def test_neighbours_of_one_role_are_joined_where_roles_must_alternate() -> None:
    turns = (("system", "S"), ("user", "a"), ("user", "b"), ("assistant", "c"), ("assistant", "d"), ("user", "e"))
    assert template("gemma").render(chat(*turns)) == (
        "<s><start_of_turn>user\nS\n\na\n\nb<end_of_turn>\n<start_of_turn>model\nc\n\nd<end_of_turn>\n"
        "<start_of_turn>user\ne<end_of_turn>\n<start_of_turn>model\n"
    )


def test_shapes_are_changed_only_when_needed() -> None:
    rendered = template("smollm2").render(chat(("system", "S"), ("user", "a"), ("user", "b")))
    assert rendered.count("<|im_start|>user") == 2
    assert rendered.startswith("<|im_start|>system\nS<|im_end|>\n")


def test_what_no_shape_can_mend_is_refused_in_the_template_s_own_words() -> None:
    with pytest.raises(RequestError, match=r"refuses these messages: Conversation roles must alternate") as caught:
        template("gemma").render(chat(("assistant", "Hello"), ("user", "Hi")))
    assert (caught.value.status, caught.value.param) == (400, "messages")


def test_the_first_refusal_is_told_not_that_of_the_last_try() -> None:
    with pytest.raises(RequestError, match=r"refuses these messages: System role not supported"):
        template("gemma").render(chat(("system", "S"), ("assistant", "Hello"), ("user", "Hi")))


def test_tool_calls_and_their_answers_are_never_joined() -> None:
    alternating = ChatTemplate(
        SHOWS_TOOLS + "{% for m in messages %}{% if loop.previtem and m.role == loop.previtem.role == 'user' %}"
        "{{ raise_exception('alternate') }}{% endif %}"
        "({{ m.role }} {{ m.content }}{{ m.tool_calls | tojson if m.tool_calls }}){% endfor %}"
    )
    call = [{"function": {"name": "f", "arguments": "{}"}}]
    messages: tuple[dict[str, Any], ...] = (
        *({"role": "user", "content": text} for text in "ab"),
        *({"role": "assistant", "content": text, "tool_calls": call} for text in "cd"),
        *({"role": "tool", "content": text} for text in "ef"),
        {"role": "assistant", "content": "g"},
    )
    shown = alternating.render(Chat(messages=messages)).replace('[{"function": {"name": "f", "arguments": {}}}]', "*")
    assert shown == "(user a\n\nb)(assistant c*)(assistant d*)(tool e)(tool f)(assistant g)"


@pytest.mark.parametrize("name", ["smollm2", "qwen2.5-coder", "llama3", "gemma", "mistral"])
def test_no_content_is_an_empty_text(name: str) -> None:
    messages = ({"role": "user", "content": "Hi"}, {"role": "assistant", "content": None}, {"role": "user"})
    assert "None" not in template(name).render(Chat(messages=messages))


def test_developer_is_system() -> None:
    assert "<|im_start|>system\nD<|im_end|>" in template("smollm2").render(chat(("developer", "D"), ("user", "Hi")))


def test_nulls_are_absent_keys() -> None:
    """`'tool_calls' in message` is how templates ask."""
    messages = ({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo", "tool_calls": None})
    assert "Yo<|eot_id|>" in template("llama3").render(Chat(messages=messages))


CONTINUED = {
    "smollm2": "<|im_start|>assistant\n",
    "qwen2.5-coder": "<|im_start|>assistant\n",
    "llama3": "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "gemma": "<start_of_turn>model\n",
    "mistral": " [/INST]",
}


@pytest.mark.parametrize("name", CONTINUED)
@pytest.mark.parametrize("begun", ["", "Once upon a ", "ReameCutsHere, said"])
def test_a_continued_answer_stays_open_and_ends_with_its_content(name: str, begun: str) -> None:
    conversation = chat(("system", "S"), ("user", "Tell"), ("assistant", begun), continue_last=True)
    assert template(name).render(conversation).endswith(CONTINUED[name] + begun)


@given(st.text(min_size=1).filter(lambda text: text == text.lstrip()), st.sampled_from(sorted(CONTINUED)))
def test_any_beginning_can_be_continued(begun: str, name: str) -> None:
    rendered = template(name).render(chat(("user", "Tell"), ("assistant", begun), continue_last=True))
    assert rendered.endswith(CONTINUED[name] + begun)


def test_a_text_that_is_shown_twice_is_cut_at_its_end() -> None:
    twice = ChatTemplate("{{ messages[-1].content }}/{{ messages[-1].content }}.")
    assert twice.render(chat(("user", "a"), ("assistant", "b"), continue_last=True)).endswith("/b")


def test_only_the_assistant_is_continued() -> None:
    with pytest.raises(RequestError, match="only a last message of the assistant"):
        template("smollm2").render(chat(("user", "Hi"), continue_last=True))


def test_a_template_that_hides_the_last_message_cannot_continue() -> None:
    with pytest.raises(RequestError, match="cannot continue"):
        ChatTemplate("{{ messages[0].content }}").render(chat(("user", "a"), ("assistant", "b"), continue_last=True))


def test_messages_are_not_changed() -> None:
    messages: tuple[dict[str, Any], ...] = ({"role": "user", "content": None}, {"role": "assistant", "content": "b"})
    template("smollm2").render(Chat(messages=messages, continue_last=True))
    assert messages == ({"role": "user", "content": None}, {"role": "assistant", "content": "b"})


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("{% for m in messages %}", r"broken in line 1: .*endfor"),
        ("\n{{ x | no_such_filter }}", r"broken in line 2: No filter named 'no_such_filter'"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "broken: it is nested too deeply"),
    ],
)
def test_a_broken_template_is_a_model_error_in_one_line(source: str, problem: str) -> None:
    with pytest.raises(ModelError, match=problem) as caught:
        ChatTemplate(source)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("{{ messages[7].content.x }}", "UndefinedError"),
        ("{{ 'a' + 1 }}", "TypeError"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "SecurityError"),
        ("{{ messages.append(1) }}", "SecurityError"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
        ("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "more than 1000000 steps"),
        ("{% for a in range(99999) %}{{ messages[0].content * 1000 }}{% endfor %}", "more than 16777216 characters"),
        ("{{ raise_exception('Not\n today') }}", "refuses these messages: Not today"),
    ],
)
def test_a_fault_while_rendering_is_a_bad_request_in_one_line(source: str, problem: str) -> None:
    with pytest.raises(RequestError, match=problem) as caught:
        ChatTemplate(source).render(chat(("user", "Hi")))
    assert caught.value.status == 400
    assert "\n" not in caught.value.message


def test_what_hugging_face_adds_to_jinja() -> None:
    source = (
        "{% for m in messages %}\n"
        "    {% if loop.index > 1 %}\n"
        "        {% break %}\n"
        "    {% endif %}\n"
        "{% generation %}{{ m.content }}{% endgeneration %}{{ {'b': '<', 'a': 1} | tojson(indent=1) }}\n"
        "{% endfor %}"
    )
    assert ChatTemplate(source).render(chat(("user", "Hi"), ("user", "Ho"))) == 'Hi{\n "b": "<",\n "a": 1\n}\n'


def test_a_request_may_set_more_of_what_a_template_asks_for() -> None:
    made = ChatTemplate(
        "{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking is false %}<no>{% endif %}{{ tools }}",
        bos_text="", eos_text="",
    )  # fmt: skip
    turns = ({"role": "user", "content": "Hi"},)
    assert made.render(Chat(messages=turns)) == "HiNone"
    assert made.render(Chat(messages=turns, variables={"enable_thinking": False})) == "Hi<no>None"
    assert made.render(Chat(messages=turns, variables={"tools": "mine"})) == "HiNone"
