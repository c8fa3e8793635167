"""Tasks: data + model + loss + figure of merit, one file each."""
