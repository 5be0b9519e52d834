"""What this package brings to Tunecheck: Azure's names, uploads to Foundry, jobs of Azure Machine Learning."""

from tunecheck.plugins import Extension, Plugin

PLUGIN = Plugin(
    "azure",
    "Azure AI Evaluation's names, uploads to Foundry, jobs of Azure Machine Learning.",
    uploaders={"foundry": Extension("tunecheck_azure._foundry.upload:FoundryUploader", "A Foundry project.")},
    command_groups={"azureml": "Run an evaluation as a job of Azure Machine Learning."},
    commands={
        "azureml job": Extension(
            "tunecheck_azure._azureml.command:job",
            "Write an evaluation as a job of Azure Machine Learning, or submit it.",
        )
    },
)
