"""What a model will cost: estimates from a profile, and how good they are."""
