"""Batches: files of requests in OpenAI's line format, the order they are computed in, and the file of their results."""
