"""Storage that several machines share: a folder, or a container of Azure's. Others use `open_store`, `Store`."""
