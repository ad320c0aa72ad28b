"""The subcommands of `reame`, one file each; every file registers itself on the app in `reame.cli`."""
