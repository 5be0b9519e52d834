"""Run folders in Azure blob storage (`az://container/prefix`): a folder on this machine mirrors them."""
