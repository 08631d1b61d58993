"""What was learnt: Gaussian processes, the campaign that feeds them, and the profile they make."""
