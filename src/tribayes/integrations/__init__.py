"""Other people's tools: Lightning, transformers' Trainer, TensorBoard and Weights & Biases (docs/integrations.md).

Each file needs the library it is named after and imports nothing of the others, so a file is what one imports:
`from tribayes.integrations.lightning import BayesianLightningModule`.
"""
