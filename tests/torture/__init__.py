"""Kills at random moments and full disks, over every command that resumes: `make torture`."""
