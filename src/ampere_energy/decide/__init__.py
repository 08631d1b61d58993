"""What to do about what training costs."""
