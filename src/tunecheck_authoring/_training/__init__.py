"""Training files of other forms, and exports of OpenAI's Evals."""
