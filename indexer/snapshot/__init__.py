"""Writers of the files that `service` reads; publishing, rolling back, comparing."""
