"""One folder per family, one file per check; `harness.checker.registry` collects them by their codes."""
