"""Sources: the datasets whose inputs, references and system outputs MetricInstruct is made of.

``registry`` names them all, ``reading`` turns their files into frames, ``source`` says what a
source is made of, and one module for each task declares its sources.
"""
