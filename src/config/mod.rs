//! Room `config`: the one table of parameters, and the file and command-line syntax.
