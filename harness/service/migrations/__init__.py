"""The database's versions: one chain for both databases, and the check that code and database are of one version.

A change comes in three releases, so that old and new processes can run at once: expand (add what is new), migrate
(fill and use it), contract (remove what is old).
"""
