"""Attribution of a wrong answer to the first broken link of its run."""
