"""`tunecheck judge`: calibration against labels."""
