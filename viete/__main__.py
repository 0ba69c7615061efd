"""``python -m viete``: the command line, as in ``torchrun --nproc-per-node 2 -m viete train …``."""

from viete.cli.main import main

if __name__ == "__main__":
    main()
