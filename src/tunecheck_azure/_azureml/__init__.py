"""`tunecheck azureml job`: an evaluation as a command job of Azure Machine Learning."""
