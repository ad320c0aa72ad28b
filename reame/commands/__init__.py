"""The subcommands of `reame`: a light file each (`serve`, `run`, `batch`, `doctor` and so on), which registers
itself on the app in `reame.cli`, and beside it what the command needs for its work, imported only when it runs.
"""
