"""How the lines of a process's log look."""

LINE = "%(asctime)s %(levelname)-7s %(name)s  %(message)s"
