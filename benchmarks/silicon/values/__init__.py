"""Compare what instructions compute on a GPU with what they compute on Tessera, bit by bit."""
