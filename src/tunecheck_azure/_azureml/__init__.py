"""`tunecheck azureml job`: an evaluation as a command job of Azure Machine Learning.

`job_files` makes what is written; `command` is the command, and hands it over.
"""
