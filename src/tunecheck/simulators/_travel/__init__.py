"""TravelAPI: bookings, accounts and flights."""
