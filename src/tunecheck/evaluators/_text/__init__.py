"""The arithmetic and the language data behind the text metrics, without anything to download.

`words` turns a text into tokens (`treebank` for English in ASCII, `nist` for everything else), `ngrams`, `meteor`,
`rouge` and `squad` turn tokens into numbers; `porter` and `wordnet` know words. All of it gives nltk's and
rouge-score's numbers, on which it is tested.
"""
