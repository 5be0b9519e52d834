"""The text metrics, with the arithmetic and the language data behind them, without anything to download.

`tokens` splits texts; `overlap` and `meteor` turn tokens into numbers, those of nltk and rouge-score.
"""
