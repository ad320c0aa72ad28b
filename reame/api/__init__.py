"""OpenAI's HTTP API over the intake."""
