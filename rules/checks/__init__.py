"""One file a rule; `harness.registry.checks` collects them by their codes."""
