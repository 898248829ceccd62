"""From a request to a plan: the way, the steps, and the folder that holds them."""
