"""The Trio tasks: daemon, intake, decode loop, metrics, logs."""
