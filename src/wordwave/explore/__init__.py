"""The explorer: see the waves of a trained classifier in a browser, live or as one HTML file."""

from wordwave.explore.bag import Bag
from wordwave.explore.page import Exported, export_page
from wordwave.explore.session import Session

__all__ = ["Bag", "Exported", "Session", "export_page"]
