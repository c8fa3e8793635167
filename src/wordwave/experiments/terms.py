"""The terms under which figures were made, in names of files and in notes."""

from __future__ import annotations

from wordwave.experiments.protocol import Protocol


def named(table: str, protocol: Protocol) -> str:
    """The name of a table's files."""
    quick = "-quick" if protocol.budget == "quick" else ""
    search = ""
    if protocol.search is not None:
        search = f"-search{protocol.search.trials}"
        search += "" if protocol.search.pool == "narrow" else f"-{protocol.search.pool}"
        search += f"-on-{protocol.search.on}" if protocol.search.on else ""
    return f"{table}{quick}{search}"


def terms_of(protocol: Protocol) -> list[str]:
    """Where settings come from, and whether it is the quick version."""
    if protocol.search is None:
        notes = ["Settings: the recipes as they are, the same for every embedding; no search."]
    else:
        terms = protocol.search
        where = f"on {terms.on}, for all data sets" if terms.on else "on each data set's fold 0"
        notes = [
            f"Settings: the best of {terms.trials} trials for each encoder and embedding, pool "
            f"“{terms.pool}”, by dev accuracy {where}, fixed for all folds and seeds; where dev "
            "cannot tell trials apart (one standard error), the one with the best mean over the "
            "five embeddings. Rows of as many parameters and variants take those of their "
            "embedding; anchors have their own."
        ]
    if protocol.budget == "quick":
        notes.append(
            "QUICK: 1 fold, 1 seed, few epochs, SST-2 from whole sentences. It shows that all "
            "works, not how good a row is."
        )
    return notes
