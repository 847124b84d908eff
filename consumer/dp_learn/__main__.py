"""Start dp-learn, which `python -m dp_learn` does too."""

from dp_bundle.base.launch import launch


def main() -> None:
    """Run dp-learn."""
    launch("dp_learn")


if __name__ == "__main__":
    main()
