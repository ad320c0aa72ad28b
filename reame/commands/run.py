"""`reame run`: a model in the terminal, as a chat or for one question, or served. Here are the command and its options.

What does the work is imported when it is called, so that `--help` and mistakes in the options are answered at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from reame.core.vote import VoteKind

Switch = Parameter(negative="", show_default=False)
Stdin = Annotated[bool, Switch, Parameter(name=["--stdin", "-"])]
Stats = Annotated[bool, Switch, Parameter(name=["--stats", "-v"])]
Sets = Annotated[tuple[str, ...], Parameter(name="--set", negative="", show_default=False)]


async def run(
    model: str,
    /,
    *question: str,
    stdin: Stdin = False,
    system: Annotated[str, Parameter(show_default=False)] = "",
    temperature: float | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    max_tokens: int | None = None,
    context: int | None = None,
    best_of: Annotated[str, Parameter(show_default=False)] = "",
    vote: VoteKind | None = None,
    stats: Stats = False,
    serve: Annotated[bool, Switch] = False,
    config: Annotated[Path | None, Parameter(name=["--config", "-c"])] = None,
    sets: Sets = (),
) -> int:
    """Chat with a model in the terminal, or ask it one question. A model that is not here yet is pulled first.

    Without a question a chat begins; /help there shows its commands. Ctrl-C stops an answer, Ctrl-D ends the chat.

    A question comes from the arguments, from standard input when that is not a terminal, or from both: then what is
    piped follows the argument. Only the answer goes to standard output. In a loop that reads its own standard input,
    add `</dev/null`.

        reame run smollm2-135m "Why is the sky blue?"
        reame run smollm2-135m "Summarise this:" <notes.txt

    Parameters
    ----------
    model
        A name from `reame list` or its beginning, hf:owner/repository/file.gguf, or the path of a .gguf file.
    question
        What to ask; several words are joined by spaces. After `--` when it begins with a hyphen.
    stdin
        Read standard input even when it is a terminal, up to Ctrl-D.
    system
        Instructions that stand before the conversation.
    temperature
        How freely tokens are drawn, 0 to 2; 0 = always the most probable one (else sampling.temperature).
    top_p
        Choose among the fewest tokens whose probabilities reach this, 0 to 1 (else sampling.top_p).
    seed
        The same seed gives the same answer; without it every answer has one of its own.
    max_tokens
        Tokens of an answer at most; 0 = up to the end of the context (else sampling.max_tokens).
    context
        Tokens of the whole conversation at most; more take more memory (else engine.context).
    best_of
        So many candidates answer at a time, 2 to 64, and what most of them agree on is shown; auto = the others only
        where the first one was uncertain.
    vote
        What --best-of compares: the final number, the label, the JSON value or the whole text (else the answers' own
        kind).
    stats
        After an answer, say on standard error how many tokens it took and how fast they came.
    serve
        Serve the model to OpenAI clients instead: `reame serve` with this model.
    config
        The TOML file. Without it: $REAME_CONFIG, etc/reame.toml, /etc/reame/reame.toml, or the defaults.
    sets
        A single setting, such as --set engine.threads=4. May be repeated; wins over the file.
    """
    from reame.commands.launch import Wanted, launch

    flags: dict[str, object] = {
        "sampling.temperature": temperature,
        "sampling.top_p": top_p,
        "sampling.max_tokens": max_tokens,
        "engine.context": context,
    }
    wanted = Wanted(
        model=model,
        question=" ".join(question),
        stdin=stdin,
        system=system,
        seed=seed,
        best_of=best_of,
        vote=vote,
        stats=stats,
        serve=serve,
        config=config,
        sets=sets,
        flags={key: value for key, value in flags.items() if value is not None},
    )
    return await launch(wanted)


def register(app: App) -> None:
    app.command(run, usage="Usage: reame run MODEL [QUESTION...] [OPTIONS]")
