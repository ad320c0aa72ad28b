"""What the daemon counts, for Prometheus. One registry per app, so that tests do not share counters.

Names, all with the prefix `reame_`: see the table in README.md; a test compares both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reame.core.scheduler import Scheduler
    from reame.memory.answers import AnswerStats
    from reame.memory.block_counts import BlockStats
    from reame.runtime.memory import Memory


class Metrics:
    """Plain counters and gauges; whoever does a thing counts it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._memory: MemoryCollector | None = None

        def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"reame_{name}", text, labels, registry=self.registry)

        self.requests = counter("requests", "Requests that ended, by outcome.", ("outcome",))
        self.prompt_tokens = counter("prompt_tokens", "Tokens of all prompts, cached ones included.")
        self.cached_tokens = counter("cached_tokens", "Of these, tokens that were not computed for the request.")
        self.candidates = counter("candidates", "Candidates of elections, by what became of them.", ("fate",))
        self.threads = Gauge("reame_threads", "Threads of a step, by its rows.", ("rows",), registry=self.registry)
        self.short_spin = Gauge("reame_short_spin", "1 while threads spin only shortly.", registry=self.registry)
        self.step_errors = counter("step_errors", "Steps that failed inside llama.cpp.")
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

    def watch_loop(self, scheduler: Scheduler) -> None:
        """Show what the scheduler has; it is asked at each scrape."""
        self.registry.register(SchedulerCollector(scheduler))

    def watch(self, memory: Memory) -> None:
        """Show what the memory on disk counts, as of the last `refresh`."""
        self._memory = MemoryCollector(memory)
        self.registry.register(self._memory)

    def refresh(self) -> None:
        """Ask the disk. For an I/O thread: it may wait a second for another process."""
        if self._memory is not None:
            self._memory.refresh()

    def render(self) -> bytes:
        """The text exposition format; independent of the locale."""
        return generate_latest(self.registry)


class SchedulerCollector(Collector):
    """What can be read off the scheduler at any time."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        scheduler, slots = self._scheduler, self._scheduler.admission.slots
        yield GaugeMetricFamily("reame_running_sequences", "Being computed.", value=len(scheduler.running))
        yield GaugeMetricFamily("reame_waiting_sequences", "In the queue.", value=len(scheduler.waiting()))
        yield GaugeMetricFamily("reame_cells_free", "KV cells, empty or garbage.", value=slots.num_free)
        yield GaugeMetricFamily("reame_cells_running", "KV cells of running sequences.", value=slots.num_pinned)
        rows, drawn = scheduler.num_rows, scheduler.num_drawn
        yield CounterMetricFamily("reame_rows", "Rows computed: prompts, generated tokens, drafts.", value=rows)
        yield CounterMetricFamily("reame_generated_tokens", "Tokens drawn.", value=drawn)
        tokens = CounterMetricFamily(
            "reame_draft_tokens", "Drafted tokens verified, by source and outcome.", labels=["source", "event"]
        )
        saved = CounterMetricFamily("reame_draft_saved_seconds", "What drafts saved, by source.", labels=["source"])
        for source, count in dict(scheduler.drafts).items():
            tokens.add_metric([source, "accepted"], count.accepted)
            tokens.add_metric([source, "rejected"], count.proposed - count.accepted)
            saved.add_metric([source], count.seconds)
        yield from (tokens, saved)
        preempted = scheduler.admission.preemption.num_preempted
        yield CounterMetricFamily("reame_preemptions", "Sequences put back for want of cells.", value=preempted)


class MemoryCollector(Collector):
    """The memory's own counts as metrics."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._stats: tuple[BlockStats | None, AnswerStats | None] = (None, None)

    def refresh(self) -> None:
        self._stats = self._memory.stats()

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        blocks, answers = self._stats
        if blocks is not None:
            events = CounterMetricFamily("reame_disk_block_events", "Blocks, by what came of them.", labels=["event"])
            for event in ("hits", "misses", "stored", "evicted", "corrupt", "foreign", "dropped"):
                lost = self._memory.num_dropped if event == "dropped" else 0
                events.add_metric([event], getattr(blocks, event) + lost)
            yield events
            yield GaugeMetricFamily("reame_disk_blocks", "Blocks on disk.", value=blocks.blocks)
            yield GaugeMetricFamily("reame_disk_bytes", "Bytes of blocks on disk.", value=blocks.bytes)
        if answers is not None:
            events = CounterMetricFamily("reame_answer_events", "Old answers, by what came of them.", labels=["event"])
            for event in ("hits", "misses", "evicted", "corrupt", "dropped"):
                events.add_metric([event], getattr(answers, event))
            yield events
            yield GaugeMetricFamily("reame_answers", "Old answers kept.", value=answers.answers)
            yield GaugeMetricFamily("reame_answer_bytes", "Bytes of old answers.", value=answers.bytes)
        if (archive := self._memory.kept.archive) is not None:
            kept = archive.stats()
            events = CounterMetricFamily("reame_archive_events", "Of the archive, by what happened.", labels=["event"])
            for event in ("appended", "dropped", "damaged", "foreign", "unreadable", "evicted"):
                events.add_metric([event], getattr(kept, event))
            yield events
            yield GaugeMetricFamily("reame_archive_tokens", "Tokens of keys that were served.", value=kept.tokens)
            yield GaugeMetricFamily("reame_archive_bytes", "Bytes of the archive on disk.", value=kept.bytes)
