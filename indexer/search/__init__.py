"""Writers of filters, offers and popularity, which `service.filtering` reads."""
