"""Started by the host as ``python -I -S <this folder> trioshell-forkserver <host pid>``."""

from __future__ import annotations

import importlib
import os
import sys

if __name__ == "__main__":
    # Our own folder comes off the path: its plain module names are for relative imports only.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    importlib.import_module("_helpers.forkserver").main(int(sys.argv[2]))
