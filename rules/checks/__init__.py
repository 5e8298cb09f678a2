"""One folder a family, one file a check; `harness.checker.registry` collects them by their codes."""
