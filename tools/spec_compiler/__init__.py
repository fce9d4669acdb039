"""The compiler of spec/*.def: one parser, and a module for each kind of output."""
