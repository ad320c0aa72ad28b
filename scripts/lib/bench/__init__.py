"""Reame measured beside what people would use instead. Run `./scripts/bench --help`; read `docs/benchmarks.md`.

A *scenario* (`scenarios/`, one file each) says what it measures and whom it favours. `harness` plays it on every *side*
(`sides`: Reame, llama-server, llama-bench) in turn, A B A B, round by round, while `noise` watches what else the
machine does. `client` records streams, `sse` reads the recordings afterwards, `stats` compares, `report` prints.
`peers` builds the other side from the very llama.cpp sources that Reame's own engine was built from.
Pure: `stats`, `prompts`, `sse`, `report`.
"""
