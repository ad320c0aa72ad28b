"""The subcommands of `reame`: a light file each (`serve`, `run`, `warm`, `cache`, `models`, `config`), which registers
itself on the app in `reame.cli`, and beside it what the command needs for its work, imported only when it runs.
"""
