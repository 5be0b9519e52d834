"""`tunecheck datasets audit`: find probable mistakes in a data set, with evidence and, if there is one, the fix.

dialogue   reads a row: messages, expected calls, their results
values     arguments that no message or result contains, or only nearly
requests   requests of the user that no call carries out
repeats    duplicate rows, and rows that are in the training data
review     accept, reject or fix findings in a browser, and write a new file

`audit.audit` goes through the rows; `findings` lists the kinds in their order. `check` makes the sure ones.
"""
