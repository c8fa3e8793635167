"""The page that tells of a model on the hub."""

from __future__ import annotations

CARD = """\
---
{{ card_data }}
---

# A text classifier whose words are waves

It says which of {{ labels | length }} classes a text is of: {{ labels | join(", ") }}.

```python
from wordwave.tasks.classifier import TextClassifier

classifier = TextClassifier.from_pretrained("{{ repo_id | default("USER/THIS-MODEL") }}")
classifier.predict(["a text", "another"])
```

| | |
|---|---|
| encoder | {{ model.encoder }} |
| embedding | {{ model.embedding }}, {{ model.dim }} dimensions |
| words | {{ "{:,}".format(n_words) }} |
| parameters | {{ "{:,}".format(n_parameters) }} |
| trained on | {{ data }} |
{%- if result %}
{%- if result.test %}
| test accuracy | {{ "%.4f" | format(result.test.accuracy) }}, 95% interval \
{{ "%.4f to %.4f" | format(*result.test.interval) }}, {{ result.test.n }} examples |
| test macro-F1 | {{ "%.4f" | format(result.test.macro_f1) }} |
{%- endif %}
| dev accuracy | {{ "%.4f" | format(result.dev_accuracy) }} |
{%- endif %}

`model.safetensors` holds the weights, `config.yaml` all settings, `vocab.json` words and classes.
"""
"""The page of a model on the hub; `result` is what `wordwave train` leaves in result.json."""
