"""Every setting of Reame, its default, its range and its reason. The defaults stand here and nowhere else.

One TOML table per class, one key per attribute; `etc/reame.toml` is generated from this file (`config_text.py`),
files are found and read by `config_load.py`. Instances are frozen and always within their ranges: also in code, a
value that breaks a rule raises ValueError. Rules between keys are in `config_conflicts.py`.
"""

from __future__ import annotations

from attrs import Factory, field, frozen

from reame.config_rules import Choice, Flag, Host, Names, Number, Origins, Place, Text, Whole, setting

MAX_SEQUENCES = 254  # llama.cpp's LLAMA_MAX_SEQ (256), less two for restoring saved cells


@frozen(kw_only=True)
class ModelConfig:
    """Which model is served."""

    path: str = setting(
        "smollm2-135m",
        Text(empty=False),
        "A name from `reame list`, or the path of a .gguf file (from the working directory).",
    )
    id: str = setting("", Text(), "The name that clients see and ask for; empty = taken from the file's name.")
    chat_template: str = setting(
        "", Place(), "Path of a Jinja file to use when the model's own chat template is missing or wrong."
    )
    mmap: bool = setting(
        False, Flag(), "Map the file, also done where a copy does not fit: starts sooner, a few per cent slower."
    )
    mlock: bool = setting(False, Flag(), "Keep the weights in RAM; needs a memlock limit above the model's size.")


@frozen(kw_only=True)
class EngineConfig:
    """How llama.cpp computes, and how much memory it may use for it."""

    threads: int = setting(
        0,
        Whole(0, 512),
        "Threads that decode; 0 = as many cores as this process may really use (affinity, cgroup quota).",
    )
    prefill_threads: int = setting(
        0, Whole(0, 512), "Threads that read a prompt; 0 = as threads, and one more for a part of a CPU in the quota."
    )
    adapt_threads: bool = setting(
        True,
        Flag(),
        "Try fewer threads while steps are held up, keep them if faster (not with kv_type f16: it would change texts).",
    )
    context: int = setting(
        8192,
        Whole(1, 16_777_216),
        "Tokens of one request at most, prompt and answer; the model's own limit may be lower.",
    )
    cells: int = setting(
        0,
        Whole(0, 67_108_864),
        "Tokens that all requests together hold in the KV cache (this is RAM); 0 = twice context, or the model's own.",
    )
    slots: int = setting(16, Whole(1, MAX_SEQUENCES), "Requests computed at once; more of them wait in the queue.")
    residents: int = setting(
        32, Whole(0, MAX_SEQUENCES), "Finished sequences kept in the KV cache: the next turn of a chat starts from one."
    )
    kv_type: str = setting(
        "q8_0",
        Choice(("f16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0")),
        "q8_0 is half the size of f16 and gives the same text however requests are batched; q4_0 halves it again.",
    )
    flash_attention: bool = setting(
        True, Flag(), "Keeps decoding fast while others fill the cache; every kv_type but f16 needs it."
    )
    batch_rows: int = setting(
        512, Whole(1, 16_384), "Tokens computed in one step at most; larger reads prompts faster and takes more memory."
    )
    exact: bool = setting(
        False,
        Flag(),
        "Bit-identical results with K-quants where own_kernels are not used too, slower then; all others always are.",
    )
    spin_count: int = setting(
        0,
        Whole(0, 1_000_000_000),
        "How long threads spin at barriers (GOMP_SPINCOUNT); 0 = long while alone, shortly beside busy neighbours.",
    )
    extra_buffers: str = setting(
        "auto",
        Choice(("auto", "on", "off")),
        "Repacked weights; auto = on, but for weights of own_kernels, and unless the canary saw them crash here.",
    )
    own_kernels: bool = setting(
        True,
        Flag(),
        "Reame's own kernels for Q4_1, Q4_K, Q5_K and Q6_K weights on x86: faster where rows share a step, and exact.",
    )
    canary: bool = setting(
        True, Flag(), "Try a new model in a child process first, so that a crash there cannot take the daemon down."
    )


@frozen(kw_only=True)
class SchedulerConfig:
    """Who is computed when, and how long one may wait."""

    step_ms: int = setting(
        200,
        Whole(1, 60_000),
        "While somebody's stream runs, prompts are read in steps no longer than this (milliseconds).",
    )
    background_slowdown: float = setting(
        0.05,
        Number(0, 10),
        "A step with users in it takes at most this share longer for batches; 0 = they wait while anybody is served.",
    )
    reserve_tokens: int = setting(
        512, Whole(1, 16_777_216), "Cells set aside at first for an answer without max_tokens; the reservation grows."
    )
    queue: int = setting(
        64, Whole(0, 100_000), "Requests that may wait; the next one gets status 429 with Retry-After."
    )
    request_timeout_s: float = setting(
        600.0, Number(0.01, 604_800), "A request that takes longer than this, waiting included, is ended (seconds)."
    )
    stall_s: float = setting(
        60.0,
        Number(0.01, 86_400),
        "When work waits and no step ends for this long, /health turns bad and the watchdog is not fed (seconds).",
    )


@frozen(kw_only=True)
class MemoryConfig:
    """What is kept on disk so that it is not computed again. Changes no answer (K-quants: see engine.own_kernels)."""

    enabled: bool = setting(True, Flag(), "Keep what was computed on disk; false = live cells only, gone at the end.")
    path: str = setting("", Place(), "Directory for it; empty = memory/ in the cache directory ($REAME_CACHE).")
    disk_mb: int = setting(4096, Whole(1, 1_073_741_824), "Room for the blocks of prefixes; the oldest go first (MiB).")
    block_tokens: int = setting(
        16, Whole(1, 1024), "Tokens a block: what lies behind the last whole block of a prompt is computed again."
    )
    share: str = setting(
        "key",
        Choice(("key", "all")),
        "key = each API key has a memory of its own and cannot tell what others asked; all = one for everybody.",
    )
    answers: bool = setting(
        True, Flag(), "Give a fixed answer (temperature 0, or a seed) again when the very same request comes back."
    )
    answers_mb: int = setting(256, Whole(1, 1_073_741_824), "Room for these answers; the oldest go first (MiB).")
    archive: bool = setting(
        True,
        Flag(),
        "Keep the tokens of what was generated, and of its prompt's end: a text that comes again is drafted from them.",
    )
    archive_mb: int = setting(
        256, Whole(1, 1_073_741_824), "Room for them, 16 bytes each; the oldest texts go first (MiB)."
    )


@frozen(kw_only=True)
class SpeculationConfig:
    """Guessing what comes next, and verifying it in one step. Changes no text (K-quants: see engine.own_kernels)."""

    enabled: bool = setting(
        True, Flag(), "Verify guesses from the prompt, from past answers and from forms, where measured steps say so."
    )
    draft_model: str = setting(
        "", Text(), "A smaller model of the same family that guesses too (name or path); seldom pays on few cores."
    )


@frozen(kw_only=True)
class SamplingConfig:
    """What a request gets that does not say otherwise."""

    temperature: float = setting(0.8, Number(0, 2), "0 = always the most probable token.")
    top_k: int = setting(40, Whole(0, 1_000_000), "Choose among this many tokens; 0 = all.")
    top_p: float = setting(
        0.95, Number(0, 1), "Choose among the fewest tokens whose probabilities reach this; 1 = all."
    )
    min_p: float = setting(
        0.05, Number(0, 1), "Leave out tokens less probable than this share of the best one; 0 = none."
    )
    repeat_penalty: float = setting(1.0, Number(0.1, 10), "Above 1 discourages tokens that were just used; 1 = off.")
    repeat_last_n: int = setting(
        64, Whole(0, 1_000_000), "How many tokens back repeat_penalty looks, the prompt included; 0 = off."
    )
    presence_penalty: float = setting(
        0.0, Number(-2, 2), "Taken from the logit of a token that was used at all; 0 = off."
    )
    frequency_penalty: float = setting(0.0, Number(-2, 2), "Taken from it for each time it was used; 0 = off.")
    infill_temperature: float = setting(
        0.0, Number(0, 2), "The temperature of /infill, which editors send without one."
    )
    max_tokens: int = setting(
        0, Whole(0, 16_777_216), "Length of an answer when the request names none; 0 = up to the end of the context."
    )


@frozen(kw_only=True)
class ConclaveConfig:
    """Several candidates answer and one is elected: what a request gets that asks for `best_of: "auto"`."""

    candidates: int = setting(
        5, Whole(2, 64), "Candidates at most: the first answers alone, the others only where it was uncertain."
    )
    margin: float = setting(
        0.1,
        Number(0, 1),
        "It was uncertain when the two likeliest tokens were less than this apart somewhere; 0 = never, 1 = always.",
    )


@frozen(kw_only=True)
class ServerConfig:
    """The HTTP side: where it listens, whom it serves, and what it puts up with."""

    host: str = setting("127.0.0.1", Host(), "Where to listen; anything but loopback is refused without api_keys_file.")
    port: int = setting(8080, Whole(0, 65_535), "TCP port; 0 = any free one (the log says which).")
    api_keys_file: str = setting(
        "", Place(), "Path of a file with one key a line, `name:key` or the key alone; empty = no key is asked for."
    )
    names: tuple[str, ...] = setting(
        (),
        Names(),
        "Names, beside localhost, by which browsers may call a server without keys, such as a proxy's; \"*\" = any.",
    )
    cors_origins: tuple[str, ...] = setting(
        (), Origins(), 'Web pages that may call from a browser, such as "https://example.org"; empty = none, "*" = all.'
    )
    max_body_mb: int = setting(16, Whole(1, 1024), "A larger request body gets status 413 (MiB).")
    keep_alive_s: float = setting(
        2.0,
        Number(0.01, 3600),
        "A stream sends a comment this often while it has no text, so that proxies keep it (seconds).",
    )
    grace_s: float = setting(
        30.0, Number(0, 86_400), "After SIGTERM running requests may finish for this long (seconds)."
    )
    write_timeout_s: float = setting(
        60.0, Number(0.01, 86_400), "A client that reads nothing for this long is cut off (seconds)."
    )
    body_timeout_s: float = setting(
        60.0, Number(0.01, 86_400), "A request whose body takes longer than this to arrive gets status 408 (seconds)."
    )
    requests_per_minute: int = setting(
        0, Whole(0, 1_000_000), "POST requests of each key in a minute; the next one gets status 429; 0 = no limit."
    )
    tokens_per_day: int = setting(
        0,
        Whole(0, 1_000_000_000_000),
        "Tokens of each key on a day (UTC) since the last start, prompts and answers; then status 429; 0 = no limit.",
    )
    max_connections: int = setting(
        512, Whole(1, 65_536), "Open connections at most; each costs a file descriptor and memory."
    )


@frozen(kw_only=True)
class EmbeddingsConfig:
    """A second model that turns texts into vectors, for `/v1/embeddings`."""

    model: str = setting(
        "", Text(), "A name from `reame list`, or the path of a .gguf file; empty = no embeddings are served."
    )
    id: str = setting("", Text(), "The name that clients see for it; empty = taken from the file's name.")
    context: int = setting(
        2048, Whole(1, 1_048_576), "Tokens of one text at most; the model's own limit may be lower."
    )


@frozen(kw_only=True)
class BatchConfig:
    """Files and batches of the API: computed when nobody else wants anything. `reame batch` needs none of this."""

    path: str = setting("", Place(), "Directory for them; empty = batches/ in the cache directory ($REAME_CACHE).")
    file_mb: int = setting(100, Whole(1, 1024), "A larger uploaded file gets status 413; a line has about 1 KB (MiB).")
    room_mb: int = setting(1024, Whole(1, 1_073_741_824), "Room for all files of one key, results included (MiB).")
    keep_days: float = setting(30.0, Number(0.001, 3650), "Files, and batches that are over, are deleted after this.")


@frozen(kw_only=True)
class LogConfig:
    """What the daemon says on standard error. Prompts, answers and keys are never logged."""

    level: str = setting("info", Choice(("debug", "info", "warning", "error")), "info has one line for each request.")
    format: str = setting("text", Choice(("text", "json")), "json = one object a line, for a log collector.")


@frozen(kw_only=True)
class Config:
    """The whole configuration: one attribute per TOML table."""

    model: ModelConfig = field(default=Factory(ModelConfig))
    engine: EngineConfig = field(default=Factory(EngineConfig))
    scheduler: SchedulerConfig = field(default=Factory(SchedulerConfig))
    memory: MemoryConfig = field(default=Factory(MemoryConfig))
    speculation: SpeculationConfig = field(default=Factory(SpeculationConfig))
    sampling: SamplingConfig = field(default=Factory(SamplingConfig))
    conclave: ConclaveConfig = field(default=Factory(ConclaveConfig))
    embeddings: EmbeddingsConfig = field(default=Factory(EmbeddingsConfig))
    server: ServerConfig = field(default=Factory(ServerConfig))
    batch: BatchConfig = field(default=Factory(BatchConfig))
    log: LogConfig = field(default=Factory(LogConfig))
