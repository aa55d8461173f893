"""Durable directories: shells that are remembered beyond their scope, and beyond its crash.

``directory`` is what a scope opens, and ``ledger`` what is told of each change; it keeps a record
of each shell (``record_format``) in a file (``files``), and ``owner`` says whose they are. What an
earlier scope left is read by ``recovery``, and what it left running is ended by ``reap``: only
processes of which ``identity`` says that they are the ones that were meant.
"""
