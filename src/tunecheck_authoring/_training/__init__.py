"""Training files of other forms: ShareGPT, xLAM, Glaive."""
