"""The engines that search a snapshot: the seam, and the engine in this process."""
