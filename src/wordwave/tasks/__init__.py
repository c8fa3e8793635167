"""Tasks: data + model + loss + figure of merit, for classes, translations and languages."""
