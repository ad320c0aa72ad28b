"""`reame batch INPUT`: many requests from a file, through one model. Here are the command and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

Hidden = Parameter(show_default=False)
Switch = Annotated[bool, Parameter(negative="", show_default=False)]


async def batch(
    input: Annotated[Path | None, Hidden] = None,
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    ordered: Switch = False,
    retry: Switch = False,
    price: Annotated[float | None, Hidden] = None,
    csv: Annotated[Path | None, Hidden] = None,
    delimiter: Annotated[str, Hidden] = "",
    prompt_file: Annotated[Path | None, Hidden] = None,
    column: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    schema: Annotated[Path | None, Hidden] = None,
    max_tokens: int = 512,
    model: Annotated[str, Hidden] = "",
    url: Annotated[str, Hidden] = "",
    key_file: Annotated[Path | None, Hidden] = None,
    config: Annotated[Path | None, Parameter(name=["--config", "-c"])] = None,
    sets: Annotated[tuple[str, ...], Parameter(name="--set", negative="", show_default=False)] = (),
) -> int:
    """Answer all requests of a file, each line on the disk as soon as it is done. After a kill or a full disk, the same
    command goes on where it was.

    INPUT has OpenAI's batch lines: custom_id, method, url, body. Or give a table and a question: --csv, --prompt-file.
    A daemon that runs on this machine does the work when nobody else wants anything; without one, the model is loaded
    here. Exit status: 0 all lines answered, 3 done but some lines failed (each says why in the output), 1 broken off.

        reame batch requests.jsonl -o answers.jsonl
        reame batch --prompt-file ask.txt --csv products.csv --schema tags.json -o tagged.csv

    Parameters
    ----------
    input
        JSON lines. Those that cannot be done get an error in the output, and the others are done.
    output
        The results, appended to as they come; a .csv file with --csv.
    ordered
        Put the results into the input's order at the end (a table always is).
    retry
        Do lines that failed in an earlier run again.
    price
        Say what this would have cost at this price for a million tokens.
    csv
        A table with a header line; each row becomes a request, each property of the schema a new column.
    delimiter
        What stands between the table's fields: a comma, a semicolon, a bar or \\t. Without it, what fits the rows.
    prompt_file
        What to ask about a row: an instruction that the columns follow, or a text with {column} where they belong.
    column
        A column that the instruction is about; may be repeated. Without it, all of them.
    schema
        JSON Schema of an answer. Without it, answers are text in one new column.
    max_tokens
        Tokens of an answer about a row, at most. For lines of JSON, each body says it.
    model
        Load this model here, whether a daemon runs or not: a name from `reame list` or a .gguf file.
    url
        Where the daemon listens (else server.host and server.port; none there: the model is loaded here).
    key_file
        A file with the API key for the daemon, alone or as `name:key`; of several lines the first.
    config
        The TOML file. Without it: $REAME_CONFIG, etc/reame.toml, /etc/reame/reame.toml, or the defaults.
    sets
        A single setting, such as --set engine.threads=4. May be repeated; wins over the file.
    """
    from reame.commands.batch_question import Question, read_question
    from reame.commands.batch_work import Wanted, run_batch

    question: Question | None = read_question(
        input, csv=csv, delimiter=delimiter, prompt_file=prompt_file, columns=column, schema=schema,
        max_tokens=max_tokens,
    )  # fmt: skip
    wanted = Wanted(
        input=input,
        question=question,
        output=output,
        ordered=ordered,
        retry=retry,
        price=price,
        model=model,
        url=url,
        key_file=key_file,
        config=config,
        sets=sets,
    )
    return await run_batch(wanted)


def register(app: App) -> None:
    app.command(batch, usage="Usage: reame batch INPUT -o OUTPUT [OPTIONS]")
