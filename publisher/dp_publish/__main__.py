"""Start dp-publish, which `python -m dp_publish` does too."""

from dp_bundle.base.launch import launch


def main() -> None:
    """Run dp-publish."""
    launch("dp_publish")


if __name__ == "__main__":
    main()
