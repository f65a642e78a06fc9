"""Where samples are run: in this process (`local`); others implement the same contract."""
