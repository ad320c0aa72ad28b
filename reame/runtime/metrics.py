"""What the daemon counts, for Prometheus. One registry per app, so that tests do not share counters.

Names, all with the prefix `reame_`: see the table in README.md; a test compares both.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class Metrics:
    """Plain counters and gauges; whoever does a thing counts it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"reame_{name}", text, labels, registry=self.registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"reame_{name}", text, registry=self.registry)

        self.requests = counter("requests", "Requests that ended, by outcome.", ("outcome",))
        self.prompt_tokens = counter("prompt_tokens", "Tokens of all prompts, cached ones included.")
        self.cached_tokens = counter("cached_tokens", "Of these, tokens that were not computed for the request.")
        self.generated_tokens = counter("generated_tokens", "Tokens drawn.")
        self.rows = counter("rows", "Rows computed: prompt tokens, generated tokens and drafts.")
        self.steps = counter("steps", "Steps of the decode loop.")
        self.step_errors = counter("step_errors", "Steps that failed inside llama.cpp.")
        self.preemptions = counter("preemptions", "Sequences put back into the queue for want of cells.")
        self.running = gauge("running_sequences", "Sequences being computed.")
        self.waiting = gauge("waiting_sequences", "Sequences in the queue.")
        self.cells_free = gauge("cells_free", "KV cells that hold nothing.")
        self.cells_running = gauge("cells_running", "KV cells held by running sequences.")
        self.step_seconds = Histogram(
            "reame_step_seconds",
            "Duration of a step.",
            buckets=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
            registry=self.registry,
        )
        self.first_token_seconds = Histogram(
            "reame_first_token_seconds",
            "From a request's arrival to its first token.",
            buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
            registry=self.registry,
        )

    def render(self) -> bytes:
        """The text exposition format; independent of the locale."""
        return generate_latest(self.registry)
