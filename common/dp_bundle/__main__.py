"""Start dp-bundle, which `python -m dp_bundle` does too."""

from dp_bundle.base.launch import launch


def main() -> None:
    """Run dp-bundle."""
    launch("dp_bundle")


if __name__ == "__main__":
    main()
