"""``python -m npsvm_cvx`` is the command ``npsvm``, also where scripts are not on the path."""

from .cli import main

if __name__ == "__main__":
    main()
