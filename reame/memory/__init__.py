"""What outlives a process: blocks of computed prefixes and old answers on disk. Synchronous, for I/O threads.

One rule over all of it: memory may change how long an answer takes, never the answer. Whatever is wrong with a file or
with the disk is a miss and a counter, never an exception.
"""
