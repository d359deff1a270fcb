"""Programs on several processes of one machine, and what comes of them."""
