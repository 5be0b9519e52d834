"""Files that models are trained with, as rows: one for each turn of the assistant that it was trained on."""
