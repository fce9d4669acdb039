# The set-up of the shell that Bash's contexts are forked from: the builtins of notebooks are there
# from `open` on (cells.c), and nothing else has to be loaded. The variable makes the agent rehearse
# a cell, and is gone afterwards.
__cloche_notebook__=1
