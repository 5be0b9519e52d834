"""Azure's part of Tunecheck: Azure AI Evaluation's names, uploads to Foundry, Azure ML jobs, runs in blob storage."""

from tunecheck.plugins import Extension, Plugin

PLUGIN = Plugin(
    "azure",
    "The API of Azure AI Evaluation, uploads to Foundry, jobs of Azure Machine Learning, and runs in blob storage.",
    uploaders={"foundry": Extension("tunecheck_azure._foundry.upload:FoundryUploader", "A Foundry project.")},
    mirrors={"az": Extension("tunecheck_azure._mirror.shipping:BlobMirror", "Azure blob storage.")},
    command_groups={"azureml": "Run an evaluation as a job of Azure Machine Learning."},
    commands={
        "azureml job": Extension("tunecheck_azure._azureml:job", "Write an evaluation's job file, and submit the job.")
    },
)
