"""Reading: files of any kind and encoding to Polars frames; what can't be read comes out as data.

``files`` finds and opens them, ``decode`` turns their bytes into lines of UTF-8, ``delimited``,
``json_records`` and ``parquet`` read one kind each, and ``tables`` is the door to all of them.
"""
