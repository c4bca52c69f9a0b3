"""Errors that stop a run before a call is paid; each message names what is wrong and the remedy."""

from __future__ import annotations


class RemintError(Exception):
    """Base of the errors a user can act on; the command line shows their message and no trace."""


class OptionError(RemintError):
    """An option, or a combination of options, that can't be used."""


class InputError(RemintError):
    """An input file that can't be used as a whole: missing, unreadable, of another form."""


class OutputError(RemintError):
    """An output directory that can't be used, or is being used by another run."""


class EndpointError(RemintError):
    """A model endpoint that can't be used: unreachable, key rejected, model unknown."""


class LedgerError(RemintError):
    """A ledger that does not close: rows went in that came out nowhere, or the reverse."""


class ValidationError(RemintError):
    """Shards or a version that an expectation suite refuses."""
