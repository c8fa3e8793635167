"""Searches for settings, judged by dev alone."""
