"""The language server: what editors ask about rule files, answered from the texts as they are being typed.

`server` speaks the protocol (and needs `pygls`); everything below it is plain data in, data out.
"""
