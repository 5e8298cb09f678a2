"""What an auditor wants to know and no rule can say: the facts that the signals of rules/audits look at."""
