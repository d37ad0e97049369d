"""Time, memory and size of builds, beside other index writers."""
