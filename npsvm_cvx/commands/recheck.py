"""``npsvm recheck``: a saved certificate, checked anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ..display import STYLE, emit
from ..errors import NPSVMError


def recheck(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A proof saved by Solution.proof.to_json().")],
) -> None:
    """Check a saved certificate anew, from data, plane and multipliers alone; exit 1 if it proves less than claimed."""
    from ..certificate import Proof, claim_of

    try:
        text = file.read_text(encoding="utf-8")
        proof = Proof.from_json(text)
    except OSError as error:
        raise NPSVMError(f"file={str(file)!r} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise NPSVMError(f"file={str(file)!r} is not a certificate: it is no text.") from error
    except ValueError as error:
        raise NPSVMError(f"file={str(file)!r} is {error}.") from error
    found, (gap, value) = proof.check(), claim_of(json.loads(text))
    emit(
        Text(
            f"proved: the plane's value {found.value:.9g} is within {found.gap:.2g} of the optimum "
            f"({found.relative_gap:.1e} of it), rounding included"
        )
    )
    # another machine sums in another order: the bound differs in its own last digits, never by a factor
    if not found.gap <= gap * 1.01 + 1e-300:
        emit(Text(f"the file claims {gap:.2g}, which is less than it proves", STYLE["fail"]))
        raise typer.Exit(1)
    if not abs(found.value - value) <= 1e-9 * max(abs(value), abs(found.value)):
        emit(Text(f"the file claims the value {value:.9g}", STYLE["fail"]))
        raise typer.Exit(1)
