"""Run folders in Azure blob storage (`az://container/prefix`), mirrored in a folder on this machine."""
