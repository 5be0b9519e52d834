"""`tunecheck datasets audit`: what is probably wrong with a data set, with evidence, and the fix where there is one.

dialogue   a row as it is read here: what is said, the right calls, what came of them
values     arguments that nothing gives, or that are nearly what is given
requests   what the user asks for and no call does
repeats    rows that are there twice, or in the training data
review     what was found, in a browser: accepted, rejected or mended, and written to a new file

`audit.audit` goes through the rows; `findings` has the kinds and their order. What is sure comes from `datasets check`.
"""
