"""`tunecheck azureml job`: an evaluation as a command job of Azure Machine Learning.

`job_files` makes what is written, `submitting` hands it over, `command` is the command.
"""
