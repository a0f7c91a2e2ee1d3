"""What users see: the names of the package, and that each says what it is."""

import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import feedline as fl
import pytest
from feedline import samplers, transforms
from feedline._knobs import KNOBS, Knobs

LISTED = Path(__file__).parent / "public_names.txt"


def names():
    for module in (fl, samplers, transforms):
        prefix = "" if module is fl else module.__name__.removeprefix("feedline.") + "."
        yield from (f"{prefix}{name}" for name in dir(module))


def public(name):
    value = fl
    for part in name.split("."):
        value = getattr(value, part)
    return value


def test_the_public_names_are_those_listed():
    """A change here is a change of the API: update the list on purpose, and the changelog with it."""
    assert "\n".join(names()) + "\n" == LISTED.read_text(), "python -m pytest shows what differs from public_names.txt"


def test_dir_is_the_api():
    for module in (fl, samplers, transforms):
        assert dir(module) == sorted(module.__all__)


@pytest.mark.parametrize("name", [name for name in names() if not name.endswith("__version__")])
def test_every_public_name_is_documented(name):
    value = public(name)
    assert inspect.getdoc(value), name
    if not inspect.isclass(value):
        return
    # An override says what the method it overrides says; `getdoc` finds that.
    own = [(n, m) for n, m in vars(value).items() if not n.startswith("_") and (callable(m) or isinstance(m, property))]
    assert not [n for n, _ in own if not inspect.getdoc(getattr(value, n))], name


def test_public_classes_name_their_public_module():
    assert fl.Loader.__module__ == "feedline"
    assert pickle.loads(pickle.dumps(fl.LoaderOptions(seed=3))) == fl.LoaderOptions(seed=3)


def test_the_signature_shows_every_knob_with_type_and_default():
    shown = inspect.signature(fl.Loader).parameters
    assert list(shown) == ["dataset", *KNOBS, "options"]
    for name, knob in KNOBS.items():
        assert shown[name].default == knob.default
        assert shown[name].annotation == knob.type
        assert knob.type is not None, name


def test_help_explains_every_knob():
    text = subprocess.run(
        [sys.executable, "-c", "import feedline; help(feedline.Loader)"], capture_output=True, text=True, check=True
    ).stdout
    missing = [name for name in KNOBS if f"`{name}` [" not in text]
    assert not missing


def test_knobs_are_frozen_and_shared():
    knobs = Knobs(batch_size=8)
    assert (knobs["batch_size"], knobs.batch_size, dict(knobs)["seed"]) == (8, 8, 0)
    with pytest.raises(AttributeError):
        knobs.batch_size = 9
    with pytest.raises(KeyError):
        knobs["nothing"]
    assert pickle.loads(pickle.dumps(knobs)) == knobs
    assert fl.LoaderOptions(batch_size=8).to_dict() == dict(knobs)


def test_options_print_what_is_set():
    assert repr(fl.LoaderOptions()) == "LoaderOptions()"
    assert repr(fl.LoaderOptions(seed=1).drop_last()) == "LoaderOptions(seed=1, drop_last=True)"


def test_public_modules_are_those_listed():
    """Underscored modules are ours; a module without one is a promise."""
    here = Path(fl.__file__).parent
    found = {p.stem for p in here.glob("*.py")} | {p.parent.name for p in here.glob("*/__init__.py")}
    open_to_all = {name for name in found if not name.startswith("_")}
    frameworks = {"dask", "huggingface", "jax", "keras", "lightning", "ray", "spark", "timm", "torch", "torchdata"}
    assert open_to_all == {"errors", "recipes", "samplers", "simulate", "transforms"} | frameworks
