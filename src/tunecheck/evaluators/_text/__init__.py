"""The text metrics, with the arithmetic and the language data behind them, without anything to download.

`tokens` splits texts, `ngrams`, `meteor` and `rouge` turn tokens into numbers, `porter` and `wordnet` know words. All
of it gives nltk's and rouge-score's numbers, on which it is tested.
"""
