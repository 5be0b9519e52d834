"""VehicleControlAPI: the car, and its trips."""
