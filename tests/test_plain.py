"""Configs as YAML and back: nothing changes, and nothing wrong gets through."""

from dataclasses import dataclass, fields
from typing import Literal, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordwave.config_io import dump_yaml, from_dict, read_yaml, to_dict, with_settings
from wordwave.models.config import ClassifierConfig
from wordwave.tasks.config import (
    ClassificationConfig,
    ClassificationTrainingConfig,
    DataConfig,
    TextConfig,
)


@dataclass(frozen=True)
class Small:
    name: str
    size: int = 3
    rate: float = 0.1
    kind: Literal["a", "b"] = "a"
    on: bool = False
    widths: tuple[int, ...] = (3, 4)
    span: tuple[float, float] | None = None
    limit: int | None = None


@dataclass(frozen=True)
class Large:
    small: Small
    size: int = 1


def there_and_back(config, path):
    path.write_text(dump_yaml(to_dict(config)), encoding="utf-8")
    return from_dict(type(config), read_yaml(path))


def test_every_config_comes_back_as_it_was(tmp_path):
    config = ClassificationConfig(
        DataConfig(data="ä: [x] #1.csv", dev="yes", text="null", label="1e3"),
        TextConfig(vectors="~/a b.bin", max_vocabulary=10),
        with_settings(
            ClassifierConfig(), widths=(2,), frequency_init="uniform", frequency_range=(0.5, 1)
        ),
        ClassificationTrainingConfig(learning_rate=1e-5, penalty_start=1 / 3, row_sparse=False),
    )
    assert there_and_back(config, tmp_path / "a.yaml") == config
    assert there_and_back(ClassificationConfig(), tmp_path / "b.yaml") == ClassificationConfig()


finite = st.floats(allow_nan=False)


@given(
    st.builds(
        Small,
        name=st.text(st.characters(exclude_categories=("Cs", "Cc"))),
        size=st.integers(),
        rate=finite,
        kind=st.sampled_from("ab"),
        on=st.booleans(),
        widths=st.lists(st.integers()).map(tuple),
        span=st.none() | st.tuples(finite, finite),
        limit=st.none() | st.integers(),
    )
)
def test_any_values_come_back_as_they_were(tmp_path, config):
    assert there_and_back(Large(config), tmp_path / "any.yaml") == Large(config)


@pytest.mark.parametrize("number", ["1e-3", "1E3", "-2e+4", "1.5e3", "2", "0.5"])
def test_numbers_may_be_written_as_people_write_them(tmp_path, number):
    path = tmp_path / "a.yaml"
    path.write_text(f"name: x\nrate: {number}\nspan: [{number}, 1]")
    config = from_dict(Small, read_yaml(path))
    assert config.rate == float(number) and config.span == (float(number), 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sise": 3}, "^here has an unknown key 'sise'; did you mean 'size'\\?$"),
        ({"xyzzy": 3}, "^here has an unknown key 'xyzzy'; known: name, size, rate, kind"),
        ({3: 3}, "^here has an unknown key 3"),
        ({"size": "3"}, "^here: size must be int, got '3'$"),
        ({"size": 3.0}, "^here: size must be int, got 3.0$"),
        ({"size": True}, "^here: size must be int, got True$"),
        ({"size": None}, "^here: size must be int, got None$"),
        ({"rate": "fast"}, "^here: rate must be float, got 'fast'$"),
        ({"rate": True}, "^here: rate must be float, got True$"),
        ({"kind": "c"}, "^here: kind must be one of a, b, got 'c'$"),
        ({"kind": ["a"]}, "^here: kind must be one of a, b, got \\['a'\\]$"),
        ({"on": "yes"}, "^here: on must be bool, got 'yes'$"),
        ({"name": 3}, "^here: name must be str, got 3$"),
        ({"widths": 3}, "^here: widths must be a list of int, got 3$"),
        ({"widths": [3, "x"]}, "^here: widths must be a list of int, got \\(3, 'x'\\)$"),
        ({"span": [1.0]}, "^here: span must be a list of 2 float or null, got \\[1.0\\]$"),
        ({"limit": "none"}, "^here: limit must be int or null, got 'none'$"),
        ({}, "^here: .*missing.*'name'"),
    ],
)
def test_a_wrong_value_is_named_with_its_place_and_rule(given, message):
    with pytest.raises(ValueError, match=message):
        from_dict(Small, given if not given else {"name": "x"} | given, where="here")


def test_a_wrong_value_deep_inside_is_named_with_its_path():
    with pytest.raises(ValueError, match=r"^'a.yaml': small: size must be int, got 'x'$"):
        from_dict(Large, {"small": {"name": "x", "size": "x"}}, where="'a.yaml'")
    with pytest.raises(ValueError, match=r"^'a.yaml': small must hold names and values, got 3$"):
        from_dict(Large, {"small": 3}, where="'a.yaml'")


def test_what_a_config_itself_refuses_is_named_with_its_path():
    with pytest.raises(ValueError, match=r"^c: training: epochs must be at least 1, got 0$"):
        from_dict(ClassificationConfig, {"training": {"epochs": 0}}, where="c")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [1", "is not a YAML file: while parsing"),
        (b"\xff\xfe\x00", "is not a YAML file: "),
        (b"a: 2020-13-45", "is not a YAML file: month must be"),
        (b"- 1\n- 2", "must hold names and values, got list"),
        (b"", "must hold names and values, got NoneType"),
    ],
)
def test_a_file_that_is_no_config_is_named(tmp_path, content, message):
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"^'{path}' {message}") as caught:
        read_yaml(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "part", [DataConfig, TextConfig, ClassifierConfig, ClassificationTrainingConfig]
)
def test_no_two_parts_of_a_config_share_a_name(part):
    """Flags leave the name of the part out."""
    hints = get_type_hints(ClassificationConfig)
    parts = [hints[field.name] for field in fields(ClassificationConfig)]
    others = [other for other in parts if other is not part]
    taken = {field.name for other in others for field in fields(other)}
    assert not taken & {field.name for field in fields(part)} and not get_args(part)
