"""Time: initialisation, the clock ledger, budgets and speed."""
