"""One file per verb: from a call that passed the filters to an answer. ``routing`` picks the endpoint."""
