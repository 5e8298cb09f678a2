"""Prints, as a program of `isolated_python`, what it is run with."""

from __future__ import annotations

import json
import random
import sys

if __name__ == "__main__":
    print(json.dumps([sys.path, sys.prefix, sys.argv[1:], random.__file__]))
