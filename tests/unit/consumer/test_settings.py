"""The options of learn_graph are the fields of its settings."""

from typing import get_type_hints

from dp_learn.pipeline.settings import Options, Settings


def test_options_are_the_fields_of_settings() -> None:
    """What may be passed by name is what the settings hold, of the same types."""
    assert get_type_hints(Options) == get_type_hints(Settings)
