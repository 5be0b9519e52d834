"""The front doors of the pipeline: evaluate(), score(), calibrate(), and BFCL and memory runs."""
