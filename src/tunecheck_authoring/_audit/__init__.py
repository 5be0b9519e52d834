"""`tunecheck datasets audit`: find probable mistakes in a data set, with evidence and, if there is one, the fix.

checks     the sure findings, which `tunecheck check` makes, too
dialogue   reads a row's messages, expected calls and their results; defines the kinds of findings
values     arguments that no message or result contains, and requests that no call carries out
review     accept, reject or fix findings in a browser, and write a new file

`audit.audit` goes through the rows, and finds rows that repeat others.
"""
