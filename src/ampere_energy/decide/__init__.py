"""What to do about a cost that is known before it is paid."""
