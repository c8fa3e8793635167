"""The paper's tables and figures by name."""

from __future__ import annotations
