"""Ratings from battles: Elo, Bradley–Terry, ranks, and simulated battles whose truth is known."""
