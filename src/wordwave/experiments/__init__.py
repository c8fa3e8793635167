"""The paper's tables and figures by name."""
