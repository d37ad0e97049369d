"""The processes of a build, and the processors and the memory that they may take."""
