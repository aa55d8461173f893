"""Started by the host as ``python -I -S <this file> trioshell-forkserver <host pid>``.

As a file and not as a folder, because for a folder Python first imports a good part of its
library.
"""

from __future__ import annotations

import importlib
import os
import sys

if __name__ == "__main__":
    # The folder above ours, so that our plain module names are for relative imports only.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    importlib.import_module("_helpers.forkserver").main(int(sys.argv[2]))
