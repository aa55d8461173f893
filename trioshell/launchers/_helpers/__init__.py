r"""The helper processes of the supervised launcher: a fork server and its supervisors.

The host starts this folder as a program (see ``__main__.py``). What runs in it depends on the
standard library alone and imports neither trio nor the rest of trioshell; the host imports
`messages`, `procfs`, `killing`, `creating` and `limiting` from here, so that both sides share one
text.

The theory
----------
Linux has one unprivileged way to *know* that a command and everything it ever started is gone: be
a **child subreaper**. Orphans below a subreaper become its children, also after ``setsid`` and
double forks, so when ``wait`` says ECHILD the tree is empty, without guessing. But a subreaper
must wait for any child, which steals exit statuses from other code in the same process, and it
dies with that process. So it is a process of its own, one per running shell:

    host ---- fork server          one per scope: forks supervisors, inherits what they leave
       \          |
        `---- supervisor           one per running shell, then reused for another
                   |
                 leader            in its own session, with all its descendants below it

Each of the three can be killed at any moment, and the tree still ends:

*   host gone: every supervisor has its pidfd and a socket to it; it kills its tree and ends;
*   supervisor gone: its orphans fall to the fork server, itself a subreaper, which kills them;
*   fork server gone: nobody notices; the host starts another one for later supervisors;
*   both helpers gone: the host looks for the tree by its mark (see ``launchers/_sweep.py``).

What may be signalled
---------------------
A number may be signalled only while it is certain to be ours. An unreaped child pins its own
number and the number of its group; everything else is opened as a pidfd, compared with the
identity that was seen (pid and start time), and signalled through the pidfd. See `killing`.
"""
