"""``python -m viete``: the command line. ``torchrun -m viete train …`` starts it this way."""

from viete.cli.main import main

if __name__ == "__main__":
    main()
