"""Audits: independent verdicts on what a mentor wrote, given afterwards, and how far auditors agree.

An audit is a run of its own (`SUITE-audit-AUDITOR`) whose rows name diagnoses or instructions of other runs. It never sees what
came of a diagnosis: that a follow-up succeeded is no evidence that the diagnosis was right.
"""
