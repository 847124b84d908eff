"""Each package's public names are the ones that it lists."""

import importlib
import inspect
import pkgutil

import pytest

PACKAGES = ("dp_bundle", "dp_publish", "dp_audit", "dp_learn")
MODULES = [
    module.name
    for package in PACKAGES
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
]


@pytest.mark.parametrize("package", [name for name in PACKAGES if name != "dp_audit"])  # which offers a command alone
def test_package_lists_what_it_offers(package: str) -> None:
    """Every public object in a package's namespace is in its sorted __all__, and the other way round."""
    module = importlib.import_module(package)
    for name in module.__all__:
        getattr(module, name)  # some are imported only when they are asked for
    offered = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and name != "import_on_demand"
        and getattr(value, "__module__", "").startswith(PACKAGES)
    }

    assert list(module.__all__) == sorted(module.__all__)
    assert offered == set(module.__all__)


def test_module_exports_exist_and_no_module_borrows_a_private_name() -> None:
    """Every name in a module's __all__ exists; a library module imports no underscored name of another."""
    for name in MODULES:
        module = importlib.import_module(name)
        assert all(hasattr(module, exported) for exported in getattr(module, "__all__", [])), name
        borrowed = [
            attribute
            for attribute, value in vars(module).items()
            if attribute.startswith("_")
            and attribute not in {"__getattr__", "__dir__"}  # of a module (PEP 562), which are made elsewhere
            and (inspect.isfunction(value) or inspect.isclass(value) or hasattr(value, "py_func"))  # compiled by numba
            and value.__module__ != name
            and value.__module__.startswith(PACKAGES)
        ]
        assert borrowed == [], name
