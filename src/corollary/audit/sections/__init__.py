"""The sections of the audit, one file each: a `TITLE` and `findings(subject, budget, key)`."""
